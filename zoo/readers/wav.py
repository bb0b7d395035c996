"""Reads WAV files, in the graph, and writes arrays as WAV files."""

import struct

import numpy as np
import tensorflow as tf

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
UNTIL_THE_END = (0, 0xFFFFFFFF)  # sizes of data in a file that was written before it was known
RATES = (1000, 768_000)
LARGEST = 2.0**31  # of floats on any scale; the power of much larger ones is infinite
FORMATS = "PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64 bits"


# AutoGraph, which tf.data applies, would take seconds and change nothing.
@tf.autograph.experimental.do_not_convert
def read_wav(encoded):
    """Reads a WAV file, inside a graph or outside.

    Args:
        encoded: Scalar string, the content of a file.

    Returns:
        float32 `(samples,)` from -1 to 1, the mean of all channels; int32 scalar, samples per
        second.

    Raises:
        tf.errors.InvalidArgumentError: If it is not a WAV file, is incomplete, or has an
            unsupported encoding.

    Example:

    >>> samples, rate = read_wav(write_wav(np.array([[0.5, 0.0], [-1.0, 1.0]]), 8000))
    >>> samples.numpy().tolist(), int(rate)
    ([0.25, 0.0], 8000)
    """
    size = tf.strings.length(encoded)
    beginning = tf.strings.substr(encoded, 0, tf.minimum(size, 12)) + 12 * "\0"
    names = tf.strings.substr(beginning, 0, 4) + tf.strings.substr(beginning, 8, 4)
    is_wav = names == "RIFFWAVE"
    with tf.control_dependencies([_require(is_wav, "It does not begin as a WAV file does.")]):
        format_at, data_at, data_size = _chunks(encoded, size)
    found = _require(
        (format_at > 0) & (data_at > 0), "It has no format chunk before a data chunk, of WAV files."
    )
    with tf.control_dependencies([found]):
        kind = _unsigned(encoded, format_at, 2)
        # An extensible format begins with this number; its kind is at the start of its subformat.
        is_extensible = (kind == EXTENSIBLE) & (format_at + 26 <= size)
        kind = _unsigned(encoded, tf.where(is_extensible, format_at + 24, format_at), 2)
        channels = _unsigned(encoded, format_at + 2, 2)
        rate = _unsigned(encoded, format_at + 4, 4)
        bits = _unsigned(encoded, format_at + 14, 2)
        is_open = tf.reduce_any(data_size == tf.constant(UNTIL_THE_END, tf.int64))
    rest = tf.cast(size - data_at, tf.int64)
    checks = [
        _require(is_open | (data_size <= rest), "It ends before its data do."),
        _require(channels > 0, "It has no channels."),
        _require(
            (rate >= RATES[0]) & (rate <= RATES[1]),
            f"Its rate is not from {RATES[0]} to {RATES[1]}.",
        ),
    ]
    with tf.control_dependencies(checks):
        data_size = tf.cast(tf.where(is_open, rest, data_size), tf.int32)
        frame = channels * bits // 8
        frames = data_size // tf.maximum(frame, 1)
    with tf.control_dependencies([_require(frames > 0, "It holds no sound.")]):
        data = tf.strings.substr(encoded, data_at, frames * frame)
    samples = tf.reshape(_numbers(data, kind, bits), (-1, channels))
    are_numbers = tf.reduce_all(tf.abs(samples) <= LARGEST)  # False for NaN
    with tf.control_dependencies(
        [_require(are_numbers, "Its samples are not all finite, and from -1 to 1.")]
    ):
        return tf.reduce_mean(samples, axis=1), rate


def write_wav(samples, rate):
    """Returns the content of a WAV file.

    Args:
        samples: Array `(samples,)` or `(samples, channels)`, of int16, or of floats from -1 to 1.
        rate: Samples per second.
    """
    samples = np.asarray(samples)
    is_float = samples.dtype != np.int16
    data = samples.astype("<f4" if is_float else "<i2").tobytes()
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    size = 4 if is_float else 2
    settings = FLOAT if is_float else PCM, channels, rate, rate * channels * size, channels * size
    header = struct.pack("<4sIHHIIHH", b"fmt ", 16, *settings, 8 * size)
    content = b"WAVE" + header + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(content)) + content


def _chunks(encoded, size):
    """Returns where the contents of the format and data chunks begin, -1 for a missing one.

    Returns:
        int32 scalars of both, and the size of the data, int64.
    """

    def goes_on(place, format_at, data_at, data_size):
        return (place + 8 <= size) & (data_at < 0)

    def next_chunk(place, format_at, data_at, data_size):
        name = tf.strings.substr(encoded, place, 4)
        length = tf.cast(_unsigned(encoded, place + 4, 4), tf.int64) & 0xFFFFFFFF
        content = place + 8
        is_format = (name == b"fmt ") & (length >= 16) & (content + 16 <= size)
        format_at = tf.where(is_format, content, format_at)
        is_data = (name == b"data") & (format_at > 0)
        data_at = tf.where(is_data, content, data_at)
        data_size = tf.where(is_data, length, data_size)
        following = tf.cast(content, tf.int64) + length + length % 2  # chunks begin at even offsets
        place = tf.cast(tf.minimum(following, tf.cast(size, tf.int64)), tf.int32)
        return place, format_at, data_at, data_size

    start = tf.constant(12), tf.constant(-1), tf.constant(-1), tf.constant(0, tf.int64)
    return tf.while_loop(goes_on, next_chunk, start)[1:]


def _numbers(data, kind, bits):
    """Returns bytes as floats from -1 to 1."""

    def integers(dtype):
        numbers = tf.io.decode_raw(data, dtype)
        return tf.cast(numbers, tf.float32) / float(2 ** (8 * dtype.size - 1))

    def of_24_bits():
        low, middle, high = tf.unstack(tf.reshape(tf.io.decode_raw(data, tf.uint8), (-1, 3)), 3, 1)
        high = tf.bitcast(high, tf.int8)
        number = tf.cast(high, tf.int32) * 65536 + (
            tf.cast(middle, tf.int32) * 256 + tf.cast(low, tf.int32)
        )
        return tf.cast(number, tf.float32) / 2.0**23

    is_known = [
        (PCM, 8, lambda: tf.cast(tf.io.decode_raw(data, tf.uint8), tf.float32) / 128.0 - 1.0),
        (PCM, 16, lambda: integers(tf.int16)),
        (PCM, 24, of_24_bits),
        (PCM, 32, lambda: integers(tf.int32)),
        (FLOAT, 32, lambda: tf.io.decode_raw(data, tf.float32)),
        (FLOAT, 64, lambda: tf.cast(tf.io.decode_raw(data, tf.float64), tf.float32)),
    ]

    def unknown():
        told = tf.strings.format("Its samples are of kind {} with {} bits", (kind, bits))
        with tf.control_dependencies(
            [tf.debugging.Assert(False, [told, f"; they must be {FORMATS}."])]
        ):
            return tf.zeros([0])

    cases = [((kind == each) & (bits == size), read) for each, size, read in is_known]
    return tf.case(cases, unknown)


def _unsigned(encoded, place, size):
    """Returns the little-endian number at a place of a string, int32."""
    kind = {2: tf.uint16, 4: tf.int32}[size]
    return tf.cast(tf.io.decode_raw(tf.strings.substr(encoded, place, size), kind)[0], tf.int32)


def _require(condition, message):
    return tf.debugging.Assert(condition, [message])
