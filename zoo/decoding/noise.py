"""Uniform random numbers that only depend on a row's own seed and the step."""

import tensorflow as tf

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_KEY_PARITY = 0x1BD11BDA


def uniforms(seeds, length, first_step=0):
    """Returns numbers in [0, 1) for successive steps of each row, `[length, batch]` float32.

    `tf.random.stateless_uniform` takes one seed for a whole tensor, and returns other numbers under
    XLA. These are always the same, for every batch and length.

    Args:
        seeds: `[batch, 2]` int32.
        length: int32 scalar.
        first_step: int32 scalar, the number of the first of these steps.
    """
    keys = tf.unstack(tf.bitcast(seeds, tf.uint32), num=2, axis=1)
    steps = tf.cast(first_step + tf.range(length), tf.uint32)[:, None]
    bits, _ = threefry(keys, (steps, tf.zeros_like(steps)))
    # float32 holds 24 bits exactly.
    return tf.cast(tf.bitwise.right_shift(bits, _word(8)), tf.float32) * 2.0**-24


def threefry(key, counter):
    """Threefry-2x32 with 20 rounds: two words of noise for each key and counter.

    Paper: Salmon et al. 2011, Parallel Random Numbers: As Easy as 1, 2, 3
    (https://doi.org/10.1145/2063384.2063405).

    Args:
        key: Pair of uint32 tensors.
        counter: Pair of uint32 tensors, which broadcast with those of the key.
    """
    keys = [*key, tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(*key), _word(_KEY_PARITY))]
    left, right = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for bits in _ROTATIONS[group % 2]:
            left += right
            right = tf.bitwise.bitwise_xor(_rotate(right, bits), left)
        left += keys[(group + 1) % 3]
        right += keys[(group + 2) % 3] + _word(group + 1)
    return left, right


def _rotate(words, bits):
    high = tf.bitwise.left_shift(words, _word(bits))
    return tf.bitwise.bitwise_or(high, tf.bitwise.right_shift(words, _word(32 - bits)))


def _word(value):
    return tf.constant(value, tf.uint32)
