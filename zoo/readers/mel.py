"""Mel bands: triangular filters of equal width on the mel scale, in NumPy alone."""

import numpy as np

FLOOR = 1e-10  # of power, before the logarithm
NEPERS = np.log(10.0) / 10.0  # per decibel, in the natural logarithm of power


def fft_size(window):
    """Returns the next power of two."""
    return 2 ** int(np.ceil(np.log2(window)))


def hann_window(window, size):
    """Returns Hann's window of `window` samples, centered in `size`, float32 `(size,)`."""
    before = (size - window) // 2
    hann = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(window) / window)
    return np.pad(hann, (before, size - window - before)).astype("float32")


def mel_triangles(rate, bands, size):
    """Returns the weight of each frequency in each band, float64 `(size / 2 + 1, bands)`.

    A mel is `2595 log10(1 + hertz / 700)` (O'Shaughnessy 1987, Speech Communication, p. 150).

    Example:

    >>> mel_triangles(rate=8000, bands=2, size=8).round(2).tolist()
    [[0.0, 0.0], [0.68, 0.32], [0.0, 0.91], [0.0, 0.45], [0.0, 0.0]]
    """
    edges = np.linspace(0.0, 2595.0 * np.log10(1.0 + rate / 2.0 / 700.0), bands + 2)
    return _triangles(700.0 * (10.0 ** (edges / 2595.0) - 1.0), rate, size)


def slaney_triangles(rate, bands, size):
    """Returns the weight of each frequency in each band, float64 `(size / 2 + 1, bands)`.

    A mel is 200 / 3 hertz below 1000 hertz, and from there on a factor of `6.4^{1 / 27}`; all bands
    have the same area (Slaney 1998, Auditory Toolbox).

    Example:

    >>> slaney_triangles(rate=8000, bands=2, size=8).round(5).tolist()
    [[0.0, 0.0], [0.00088, 0.00014], [0.0, 0.00056], [0.0, 0.00028], [0.0, 0.0]]
    """
    per_mel, knee, steps = 200.0 / 3.0, 1000.0, np.log(6.4) / 27.0
    highest = max(rate / 2.0, knee)
    last = min(rate / 2.0, knee) / per_mel + np.log(highest / knee) / steps
    mels = np.linspace(0.0, last, bands + 2)
    above = np.maximum(mels - knee / per_mel, 0.0)
    edges = np.where(above > 0.0, knee * np.exp(steps * above), mels * per_mel)  # hertz
    return _triangles(edges, rate, size) * 2.0 / (edges[2:] - edges[:-2])


def kaldi_triangles(rate, bands, size):
    """Returns the weight of each frequency in each band, float64 `(size / 2 + 1, bands)`.

    A mel is `1127 ln(1 + hertz / 700)`, and the triangles are straight in mel. The lowest band
    begins at 20 hertz.

    Example:

    >>> kaldi_triangles(rate=8000, bands=2, size=8).round(2).tolist()
    [[0.0, 0.0], [0.63, 0.37], [0.0, 0.89], [0.0, 0.38], [0.0, 0.0]]
    """

    def mels(hertz):
        return 1127.0 * np.log(1.0 + hertz / 700.0)

    edges = np.linspace(mels(20.0), mels(rate / 2.0), bands + 2)
    return _between(edges, mels(np.linspace(0.0, rate / 2.0, size // 2 + 1)))


def _triangles(edges, rate, size):
    """Returns triangles of height 1 from edge to edge, in hertz."""
    return _between(edges, np.linspace(0.0, rate / 2.0, size // 2 + 1))


def _between(edges, frequencies):
    frequencies = frequencies[:, None]
    rising = (frequencies - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - frequencies) / np.diff(edges)[1:]
    return np.maximum(0.0, np.minimum(rising, falling))
