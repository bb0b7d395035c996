"""Log-mel spectrograms: how much of each frequency there is, frame by frame, as ears tell them."""

import numpy as np
import tensorflow as tf

FLOOR = 1e-10  # of power, before the logarithm


def log_mel(waves, rate, bands, window, hop):
    """Returns the log-mel spectrograms of sounds, in the graph.

    $$ \\ln \\max(10^{-10}, \\sum_f M_{bf} |\\sum_n w_n x_{th + n} e^{-2πi f n / N}|^2) $$

    The numbers are those of librosa's `melspectrogram` with `htk=True, norm=None` and of
    torchaudio's `MelSpectrogram` with `pad_mode="constant"`: frames stand around every `hop`-th
    sample, before and behind the sound is silence, the window is Hann's, and the bands are
    triangles of equal width in mel.

    Args:
        waves: float32 `(batch, samples)`.
        rate: Samples a second.
        bands: Number of bands.
        window: Samples of a frame; `N` is the next power of two.
        hop: Samples from frame to frame.

    Returns:
        float32 `(batch, 1 + samples // hop, bands)`.

    Example:

    >>> log_mel(tf.zeros((2, 800)), rate=8000, bands=40, window=200, hop=80).shape.as_list()
    [2, 11, 40]
    """
    size = fft_size(window)
    padded = tf.pad(waves, [[0, 0], [size // 2, size // 2]])
    frames = tf.signal.frame(padded, size, hop)  # (batch, frames, size)
    before = (size - window) // 2
    hann = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(window) / window)
    hann = np.pad(hann, (before, size - window - before)).astype("float32")
    spectrum = tf.signal.rfft(frames * hann)
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    triangles = mel_triangles(rate, bands, size).astype("float32")
    return tf.math.log(tf.maximum(tf.matmul(power, triangles), FLOOR))


def fft_size(window):
    """Returns the next power of two."""
    return 2 ** int(np.ceil(np.log2(window)))


def mel_triangles(rate, bands, size):
    """Returns how much each frequency counts in each band, float64 `(size / 2 + 1, bands)`.

    A mel is `2595 log10(1 + hertz / 700)` (O'Shaughnessy 1987, Speech Communication, p. 150).

    Example:

    >>> mel_triangles(rate=8000, bands=2, size=8).round(2).tolist()
    [[0.0, 0.0], [0.68, 0.32], [0.0, 0.91], [0.0, 0.45], [0.0, 0.0]]
    """
    edges = np.linspace(0.0, 2595.0 * np.log10(1.0 + rate / 2.0 / 700.0), bands + 2)
    edges = 700.0 * (10.0 ** (edges / 2595.0) - 1.0)  # hertz
    frequencies = np.linspace(0.0, rate / 2.0, size // 2 + 1)[:, None]
    rising = (frequencies - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - frequencies) / np.diff(edges)[1:]
    return np.maximum(0.0, np.minimum(rising, falling))
