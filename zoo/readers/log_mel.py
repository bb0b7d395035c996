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


def whisper_log_mel(waves, rate, bands, window, hop):
    """Returns the log-mel spectrograms that Whisper hears, in the graph.

    $$ x = \\frac{1}{4} \\max(l, \\max l - 8) + 1, \\quad
       l = \\log_{10} \\max(10^{-10}, \\sum_f M_{bf} |\\sum_n w_n x_{th + n} e^{-2πi f n / N}|^2) $$

    The numbers are those of `WhisperFeatureExtractor` of transformers: before and behind the sound
    is its mirror image, the window of `N` samples is Hann's, the bands are Slaney's triangles, and
    the frame around the end is left out.

    Args:
        waves: float32 `(batch, samples)`, as long as the model hears at once.
        rate, bands, hop: As for `log_mel`.
        window: Samples of a frame, `N`.

    Returns:
        float32 `(batch, samples // hop, bands)`.

    Example:

    >>> whisper_log_mel(tf.zeros((2, 1600)), 16000, bands=80, window=400, hop=160).shape.as_list()
    [2, 10, 80]
    """
    padded = tf.pad(waves, [[0, 0], [window // 2, window // 2]], mode="REFLECT")
    frames = tf.signal.frame(padded, window, hop)[:, :-1]  # (batch, frames, window)
    hann = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(window) / window)
    spectrum = tf.signal.rfft(frames * hann.astype("float32"))
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    triangles = slaney_triangles(rate, bands, window).astype("float32")
    log = tf.math.log(tf.maximum(tf.matmul(power, triangles), FLOOR)) / np.log(10.0)
    loudest = tf.reduce_max(log, axis=(1, 2), keepdims=True)
    return tf.maximum(log, loudest - 8.0) / 4.0 + 1.0


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
    return _triangles(700.0 * (10.0 ** (edges / 2595.0) - 1.0), rate, size)


def slaney_triangles(rate, bands, size):
    """Returns how much each frequency counts in each band, float64 `(size / 2 + 1, bands)`.

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


def _triangles(edges, rate, size):
    """Returns triangles of height 1 from edge to edge, in hertz."""
    frequencies = np.linspace(0.0, rate / 2.0, size // 2 + 1)[:, None]
    rising = (frequencies - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - frequencies) / np.diff(edges)[1:]
    return np.maximum(0.0, np.minimum(rising, falling))
