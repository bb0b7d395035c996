"""Log-mel spectrograms: the power of each band of frequencies, frame by frame."""

import numpy as np
import tensorflow as tf

from zoo.readers.mel import (
    FLOOR,
    fft_size,
    hann_window,
    kaldi_triangles,
    mel_triangles,
    slaney_triangles,
)


def log_mel(waves, rate, bands, window, hop):
    """Returns the log-mel spectrograms of sounds, in the graph.

    $$ \\ln \\max(10^{-10}, \\sum_f M_{bf} |\\sum_n w_n x_{th + n} e^{-2πi f n / N}|^2) $$

    The numbers are those of librosa's `melspectrogram` with `htk=True, norm=None` and of
    torchaudio's `MelSpectrogram` with `pad_mode="constant"`: frames are centered at every `hop`-th
    sample, the sound is padded with silence on both sides, the window is Hann's, and the bands are
    triangles of equal width in mel.

    Args:
        waves: float32 `(batch, samples)`.
        rate: Samples per second.
        bands: Number of bands.
        window: Number of samples in a frame; `N` is the next power of two.
        hop: Number of samples from frame to frame.

    Returns:
        float32 `(batch, 1 + samples // hop, bands)`.

    Example:

    >>> log_mel(tf.zeros((2, 800)), rate=8000, bands=40, window=200, hop=80).shape.as_list()
    [2, 11, 40]
    """
    size = fft_size(window)
    padded = tf.pad(waves, [[0, 0], [size // 2, size // 2]])
    frames = tf.signal.frame(padded, size, hop)  # (batch, frames, size)
    spectrum = tf.signal.rfft(frames * hann_window(window, size))
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    triangles = mel_triangles(rate, bands, size).astype("float32")
    return tf.math.log(tf.maximum(tf.matmul(power, triangles), FLOOR))


def whisper_log_mel(waves, rate, bands, window, hop):
    """Returns the log-mel spectrograms that Whisper takes, in the graph.

    $$ x = \\frac{1}{4} \\max(l, \\max l - 8) + 1, \\quad
       l = \\log_{10} \\max(10^{-10}, \\sum_f M_{bf} |\\sum_n w_n x_{th + n} e^{-2πi f n / N}|^2) $$

    The numbers are those of `WhisperFeatureExtractor` of transformers: the sound is padded with its
    mirror image on both sides, the window of `N` samples is Hann's, the bands are Slaney's
    triangles, and the last frame, around the end, is left out.

    Args:
        waves: float32 `(batch, samples)`, as long as one input of the model.
        rate, bands, hop: As for `log_mel`.
        window: Number of samples in a frame, `N`.

    Returns:
        float32 `(batch, samples // hop, bands)`.

    Example:

    >>> whisper_log_mel(tf.zeros((2, 1600)), 16000, bands=80, window=400, hop=160).shape.as_list()
    [2, 10, 80]
    """
    padded = tf.pad(waves, [[0, 0], [window // 2, window // 2]], mode="REFLECT")
    frames = tf.signal.frame(padded, window, hop)[:, :-1]  # (batch, frames, window)
    spectrum = tf.signal.rfft(frames * hann_window(window, window))
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    triangles = slaney_triangles(rate, bands, window).astype("float32")
    log = tf.math.log(tf.maximum(tf.matmul(power, triangles), FLOOR)) / np.log(10.0)
    loudest = tf.reduce_max(log, axis=(1, 2), keepdims=True)
    return tf.maximum(log, loudest - 8.0) / 4.0 + 1.0


def kaldi_log_mel(waves, rate, bands, window, hop):
    """Returns the log-mel spectrograms of Kaldi, in the graph.

    $$ \\ln \\max(2^{-23}, \\sum_f M_{bf} |\\sum_n w_n (y_n - 0.97 y_{n-1}) e^{-2πi f n / N}|^2) $$

    with the samples y of a frame minus their mean. The numbers are those of
    `torchaudio.compliance.kaldi.fbank` with `window_type="hanning", dither=0.0`: frames lie within
    the sound, and bands are triangles on Kaldi's mel scale, from 20 hertz on.

    Args:
        waves, rate, bands, window, hop: As for `log_mel`.

    Returns:
        float32 `(batch, frames, bands)`, as many frames as fit: `1 + (samples - window) // hop`.

    Example:

    >>> kaldi_log_mel(tf.zeros((2, 800)), 8000, bands=40, window=200, hop=80).shape.as_list()
    [2, 8, 40]
    """
    frames = tf.signal.frame(waves, window, hop)  # (batch, frames, window)
    frames -= tf.reduce_mean(frames, axis=-1, keepdims=True)
    before = tf.concat([frames[..., :1], frames[..., :-1]], axis=-1)
    tapered = (frames - 0.97 * before) * np.hanning(window).astype("float32")
    size = fft_size(window)
    spectrum = tf.signal.rfft(tf.pad(tapered, [[0, 0], [0, 0], [0, size - window]]))
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    triangles = kaldi_triangles(rate, bands, size).astype("float32")
    return tf.math.log(tf.maximum(tf.matmul(power, triangles), 2.0**-23))
