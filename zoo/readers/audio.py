"""Reads sounds from files, bytes or arrays, and from bytes inside graphs."""

import functools
import os
import re
import reprlib
from numbers import Integral

import numpy as np
import tensorflow as tf

from zoo.readers.several import content_of
from zoo.readers.tracing import traced_once
from zoo.readers.wav import RATES, read_wav, write_wav

ZEROS = 6  # of the sinc on each side of a sample, as torchaudio has it
ROLL_OFF = 0.99  # of the highest frequency that both rates can tell
MOST_CHANNELS = 32
TAPS_AT_ONCE = 2**20  # of a resampled sound, which bounds the memory
LOUDEST = 2.0  # of floats, which a resampled sound may be a little beyond 1


def read_sounds(sound_bytes, rate, seconds):
    """Decodes WAV files of any rate into a batch of one rate, inside a graph or outside.

    Channels are mixed. A sound that cannot be decoded, or is longer than `seconds`, does not affect
    the others: its row is zeros, its length 0.

    Args:
        sound_bytes: String tensor `(batch,)`, contents of files. The batch may be empty.
        rate: Samples per second of the results, an `int`.
        seconds: Maximum length of a sound.

    Returns:
        float32 `(batch, samples)`, from -1 to 1, zeros after the end of each; int32 `(batch,)`, the
        number of samples of each.

    Example:

    >>> sound = sound_bytes((np.full(4, 0.5), 8000))
    >>> waves, lengths = read_sounds([sound, b"no sound"], rate=8000, seconds=1)
    >>> waves.numpy().tolist(), lengths.numpy().tolist()
    ([[0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]], [4, 0])
    """
    sound_bytes = tf.convert_to_tensor(sound_bytes, tf.string)
    count = tf.size(sound_bytes, tf.int64)
    sounds = tf.data.Dataset.from_tensor_slices((tf.range(count), sound_bytes))

    decode = _decoder(rate, seconds)

    def read(place, encoded):
        wave = decode(encoded)
        return place, wave, tf.size(wave)

    sounds = sounds.map(read, num_parallel_calls=tf.data.AUTOTUNE)
    # Outside of tf.data an operation that fails takes the whole graph along. The row at the end is
    # there because exactly one element must remain, even of no sounds.
    end = tf.data.Dataset.from_tensors((count, tf.zeros([1]), 0))
    rows = sounds.ignore_errors().concatenate(end).padded_batch(count + 1, ([], [None], []))
    places, waves, lengths = rows.get_single_element()
    samples = tf.shape(waves, tf.int64)[1]
    waves = tf.scatter_nd(places[:, None], waves, tf.stack([count + 1, samples]))
    lengths = tf.scatter_nd(places[:, None], lengths, [count + 1])
    return waves[:-1], lengths[:-1]


@tf.autograph.experimental.do_not_convert
def resample(wave, old_rate, new_rate):
    """Resamples a sound to another rate, without aliasing.

    $$ y_n = s \\sum_k x_k sinc(s (k - n r)) \\cos^2(\\frac{π s (k - n r)}{2 · 6}), \\quad
       s = 0.99 \\min(1, 1 / r), \\quad r = old / new $$

    The sum runs over six zeros of the sinc on each side, as in torchaudio with its default
    `"sinc_interp_hann"` (Smith, Digital Audio Resampling,
    https://ccrma.stanford.edu/~jos/resample).

    There are `new / gcd(old, new)` possible positions of new samples between old ones, so only that
    many kernels are computed.

    Args:
        wave: float32 `(samples,)`.
        old_rate, new_rate: Samples per second, Python integers or integer scalars.

    Returns:
        float32 `(ceil(samples · new / old),)`.

    Example:

    >>> resample(tf.ones([40]), 2, 1).numpy().round(2)[9:11].tolist()
    [1.0, 1.0]
    """
    old, new = tf.cast(old_rate, tf.int64), tf.cast(new_rate, tf.int64)
    divisor = _greatest_common_divisor(old, new)
    old, new = old // divisor, new // divisor
    step = tf.cast(old, tf.float64) / tf.cast(new, tf.float64)
    sharpness = ROLL_OFF * tf.minimum(tf.constant(1.0, tf.float64), 1.0 / step)
    reach = tf.cast(tf.math.ceil(ZEROS / sharpness), tf.int64)
    offsets = tf.range(-reach, reach + 2)  # (taps,)
    fractions = tf.cast(tf.range(new), tf.float64) / tf.cast(new, tf.float64)
    x = (tf.cast(offsets, tf.float64) - fractions[:, None]) * sharpness  # (kernels, taps)
    x = tf.cast(tf.clip_by_value(x, -ZEROS, ZEROS), tf.float32)
    window = tf.square(tf.cos(x * (np.pi / 2.0 / ZEROS)))
    is_middle = tf.abs(x) < 1e-6
    angle = np.pi * tf.where(is_middle, 1.0, x)
    sinc = tf.where(is_middle, 1.0, tf.sin(angle) / angle)
    kernels = sinc * window * tf.cast(sharpness, tf.float32)

    count = -(-tf.size(wave, tf.int64) * new // old)
    padded = tf.pad(wave, [[reach, reach + 2]])
    part = tf.clip_by_value(TAPS_AT_ONCE // tf.size(offsets, tf.int64), 1, tf.maximum(count, 1))

    def samples(first):
        places = tf.clip_by_value(tf.range(first, first + part), 0, tf.maximum(count - 1, 0))
        stands = places * old  # in parts of which `new` are a sample
        neighbours = tf.gather(padded, (stands // new)[:, None] + offsets + reach)
        return tf.reduce_sum(neighbours * tf.gather(kernels, stands % new), axis=1)

    firsts = tf.range(0, tf.maximum(count, 1), part)
    parts = tf.map_fn(samples, firsts, parallel_iterations=1, fn_output_signature=tf.float32)
    return tf.reshape(parts, [-1])[:count]


def _greatest_common_divisor(first, second):
    def step(larger, smaller):
        return smaller, larger % smaller

    return tf.while_loop(lambda larger, smaller: smaller > 0, step, (first, second))[0]


def sound_bytes(sound, seconds=None, shortest=0.0):
    """Returns the bytes of a WAV file for a path, bytes, or an array and its rate.

    Args:
        sound: Path of a WAV file (`str` or `pathlib.Path`), bytes of one, or a tuple of an array
            and its rate in samples per second: `(samples,)` or `(samples, channels)`, int16 or
            floats from -1 to 1.
        seconds: Maximum length, or `None`.
        shortest: Minimum length in seconds.

    Returns:
        `bytes`: a file as it is, an array as WAV.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If `read_sounds` cannot decode it, it is an array of another form, or it is too
            long or too short.
        TypeError: If it is something else, such as an array without its rate.

    Example:

    >>> sound_bytes((np.zeros(80), 8000))[:4]
    b'RIFF'
    """
    if isinstance(sound, str | os.PathLike):
        content = content_of(sound, "sound")
        return _require_sound(content, f"The file '{sound}'", seconds, shortest)
    if isinstance(sound, bytes | bytearray | memoryview):
        return _require_sound(bytes(sound), f"A sound of {len(sound)} bytes", seconds, shortest)
    if is_array_with_rate(sound):
        content = _wav_of_array(np.asarray(sound[0]), sound[1])
        return _require_sound(content, "The array", seconds, shortest)
    raise TypeError(
        "A sound must be a path, the bytes of a WAV file, or a tuple (samples, rate) of an array "
        f"and its sample rate. Received: {_told(sound)}."
    )


def is_array_with_rate(sound):
    """Returns whether a sound is a tuple of an array and a number."""
    if not isinstance(sound, tuple) or len(sound) != 2:
        return False
    return hasattr(sound[0], "__array__") and not hasattr(sound[1], "__len__")


@functools.cache
def _decoder(rate, seconds):
    return traced_once(lambda encoded: _decode(encoded, rate, seconds))


def _decode(encoded, rate, seconds):
    """Returns float32 (samples,) for the content of a file."""
    wave, old_rate = read_wav(encoded)
    length = tf.cast(tf.size(wave), tf.float64) / tf.cast(old_rate, tf.float64)
    message = [f"It is longer than {seconds} seconds: cut it."]
    with tf.control_dependencies([tf.debugging.Assert(length <= seconds, message)]):
        return tf.cond(
            old_rate == rate, lambda: tf.identity(wave), lambda: resample(wave, old_rate, rate)
        )


def _require_sound(content, owner, seconds, shortest):
    if not content:
        raise ValueError(f"{owner} is empty.")
    try:
        wave, rate = read_wav(tf.constant(content))
    except tf.errors.InvalidArgumentError as error:
        told = re.findall(r"b'(.*?)'", error.message) or [error.message]
        raise ValueError(
            f"{owner} cannot be read as a sound: it must be a complete WAV file. {''.join(told)} "
            "Convert other formats with: ffmpeg -i sound.mp3 sound.wav"
        ) from None
    length = wave.shape[0] / int(rate)
    if seconds is not None and length > seconds:
        raise ValueError(
            f"{owner} is {length:.1f} seconds long, and the model takes at most {seconds:g}. Cut "
            "it."
        )
    if length < shortest:
        raise ValueError(
            f"{owner} is {length:.3g} seconds long, and the model needs at least {shortest:.3g}. "
            "Leave it out."
        )
    return content


def _wav_of_array(samples, rate):
    if samples.ndim not in (1, 2) or not samples.size or samples.shape[1:] > (MOST_CHANNELS,):
        raise ValueError(
            "An array must be a sound of shape (samples,), or (samples, channels) with "
            f"at most {MOST_CHANNELS} channels. Received: shape {samples.shape}."
        )
    if not isinstance(rate, Integral) or isinstance(rate, bool) or not RATES[0] <= rate <= RATES[1]:
        raise ValueError(
            f"The rate of a sound must be an integer from {RATES[0]} to {RATES[1]} samples "
            f"per second. Received: {rate!r}."
        )
    if samples.dtype.kind == "f":
        if not np.abs(samples).max() <= LOUDEST:
            raise ValueError(
                "An array of floats must hold numbers from -1 to 1. Received: up to "
                f"{np.abs(samples).max():g}. Divide 16-bit samples by 32768, or pass int16."
            )
    elif samples.dtype != np.int16:
        raise ValueError(
            "An array must be of int16, or of floats from -1 to 1. Received: dtype "
            f"{samples.dtype}."
        )
    return write_wav(samples, int(rate))


def _told(sound):
    if hasattr(sound, "__array__"):
        return f"an array of shape {np.shape(sound)} without its rate"
    return f"{reprlib.repr(sound)} of type {type(sound).__name__}"
