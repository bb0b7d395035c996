"""Sounds, a little different each time: another speed, noise, throat and microphone, and gaps."""

import numpy as np
import tensorflow as tf

from zoo.readers.audio import resample

STEPS = 100  # of speeds from one to twice as fast


def at_another_speed(wave, largest, seed):
    """Plays a sound up to so much faster or slower, by which its pitch changes, too.

    Ko et al. 2015, Audio Augmentation for Speech Recognition
    (https://www.isca-archive.org/interspeech_2015/ko15_interspeech.html).

    Args:
        wave: float32 `(samples,)`.
        largest: Logarithm of the largest change.
        seed: Seed, int32 `(2,)`.

    Example:

    >>> at_another_speed(tf.ones([8]), 0.0, seed=[1, 2]).shape.as_list()
    [8]
    """
    speed = tf.exp(tf.random.stateless_uniform([], seed, -largest, largest))
    return resample(wave, tf.round(STEPS * speed), STEPS)


def with_noise(waves, decibels, seed):
    """Adds white noise, so much softer than each sound.

    Args:
        waves: float32 `(batch, samples)`.
        decibels: Least and largest difference.
        seed: Seed, int32 `(2,)`.
    """
    batch = tf.shape(waves)[:1]
    power = tf.reduce_mean(tf.square(waves), axis=1)  # a little less where there is padding
    difference = tf.random.stateless_uniform(batch, tf.random.fold_in(seed, 0), *decibels)
    loudness = tf.sqrt(power) * 10.0 ** (-difference / 20.0)
    noise = tf.random.stateless_normal(tf.shape(waves), tf.random.fold_in(seed, 1))
    return waves + noise * loudness[:, None]


def of_another_throat(frames, largest, seed):
    """Stretches the bands of each spectrogram, as the lengths of vocal tracts differ.

    Jaitly and Hinton 2013, Vocal Tract Length Perturbation Improves Speech Recognition
    (https://www.cs.toronto.edu/~hinton/absps/perturb.pdf), here along mels.

    Args:
        frames: float32 `(batch, frames, bands)`.
        largest: Largest change of a band's number, as a part of it.
        seed: Seed, int32 `(2,)`.

    Example:

    >>> still = of_another_throat(tf.ones((1, 2, 4)), 0.0, seed=[1, 2])
    >>> bool(tf.reduce_all(still == 1.0))
    True
    """
    batch, _, bands = tf.unstack(tf.shape(frames))
    change = tf.random.stateless_uniform([batch, 1], seed, 1.0 - largest, 1.0 + largest)
    places = tf.range(tf.cast(bands, tf.float32)) * change
    places = tf.minimum(places, tf.cast(bands - 1, tf.float32))
    # Hat functions around the places: a product interpolates between neighbours.
    rows = tf.range(tf.cast(bands, tf.float32))[:, None]
    weights = tf.maximum(1.0 - tf.abs(rows - places[:, None, :]), 0.0)  # (batch, bands, bands)
    return tf.matmul(frames, weights)


def of_another_microphone(frames, deviation, seed):
    """Adds a smooth random curve to the bands of each log-mel spectrogram, as microphones differ.

    Args:
        frames: float32 `(batch, frames, bands)`.
        deviation: Standard deviation of each of four cosines.
        seed: Seed, int32 `(2,)`.

    Example:

    >>> still = of_another_microphone(tf.ones((1, 2, 4)), 0.0, seed=[1, 2])
    >>> bool(tf.reduce_all(still == 1.0))
    True
    """
    batch, _, bands = tf.unstack(tf.shape(frames))
    places = tf.range(tf.cast(bands, tf.float32)) / tf.cast(bands, tf.float32)
    waves = tf.cos(np.pi * tf.range(1.0, 5.0)[:, None] * places)  # (4, bands)
    loudness = tf.random.stateless_normal([batch, 4], seed, stddev=deviation)
    return frames + tf.matmul(loudness, waves)[:, None, :]


def with_gaps(frames, lengths, number, time, bands, seed):
    """Hides some frames, and some bands, of each spectrogram: they become 0.

    Park et al. 2019, SpecAugment (https://arxiv.org/abs/1904.08779).

    Args:
        frames: float32 `(batch, frames, bands)`, normalized, so that 0 is the mean.
        lengths: int32 `(batch,)`, how many frames of each count.
        number: Gaps in the time, and as many among the bands.
        time, bands: Largest gap, as a part of the frames, and of the bands.
        seed: Seed, int32 `(2,)`.
    """
    batch, longest, all_bands = tf.unstack(tf.shape(frames))

    def gaps(count, largest, places, place):
        draws = tf.random.stateless_uniform([2, batch, number], tf.random.fold_in(seed, place))
        count = tf.cast(count, tf.float32)[:, None]
        width = draws[0] * largest * count
        first = draws[1] * (count - width)
        places = tf.range(tf.cast(places, tf.float32))[:, None]
        inside = (places >= first[:, None]) & (places + 1.0 <= (first + width)[:, None])
        return tf.reduce_any(inside, axis=-1)  # (batch, places)

    in_time = gaps(lengths, time, longest, 0)[:, :, None]
    in_bands = gaps(tf.fill([batch], all_bands), bands, all_bands, 1)[:, None, :]
    return tf.where(in_time | in_bands, 0.0, frames)
