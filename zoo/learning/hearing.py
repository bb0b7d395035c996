"""Augmentation of sounds in training: a little different in each pass, on any backend.

It does what `zoo.SoundReader` does and, in between, imitates another voice, another room and
another microphone. All of it is drawn anew for each sound, from a `keras.random.SeedGenerator`.
"""

import math

import keras
from keras import ops

from zoo.readers.mel import FLOOR, NEPERS, fft_size, hann_window, mel_triangles

CURVES = 4  # cosines whose sum is a smooth curve
ECHO = 0.3  # seconds after which there is no echo
FADING = (0.02, 0.1)  # minimum and maximum of the seconds in which echoes fade to 1 / e


class Hearing(keras.layers.Layer):
    """Makes spectrograms of sounds, different ones in each call.

    With the defaults, they are those of the reader, unchanged.

    Args:
        reader: Config of the `zoo.SoundReader`.
        speed: Logarithm of the largest change of speed, which changes the pitch, too; see `faster`.
        pause: Longest silence before and after a sound, in seconds; see `with_pauses`.
        echo: Loudest echoes, see `with_echoes`.
        noise: Minimum and maximum signal-to-noise ratio in decibels, or `None`.
        color: How much the loudness of the noise varies over frequencies, see `with_noise`.
        tempo: Logarithm of the largest change of speed that preserves the pitch.
        throat: Largest stretching of the bands, see `of_another_throat`.
        microphone: How much the loudness of the bands varies, see `of_another_microphone`.
        gaps: Arguments of `with_gaps`, or `None`.
        seed: Integer seed.

    Call arguments:
        sounds: Dictionary of `samples` `(batch, samples)`, 16-bit integers or floats from -1 to 1,
            zeros after the end of each sound, and `lengths`, int32 `(batch,)`, the number of
            samples of each.

    Returns:
        Dictionary of `frames`, float32 `(batch, frames, bands)`, and `lengths`, int32 `(batch,)`.

    Example:

    >>> hearing = Hearing({"rate": 8000, "bands": 40, "window": 0.025, "hop": 0.01}, speed=0.2)
    >>> sounds = {"samples": np.ones((2, 800), "int16"), "lengths": np.array([800, 400])}
    >>> tuple(hearing(sounds)["frames"].shape)
    (2, 13, 40)
    """

    def __init__(
        self,
        reader,
        speed=0.0,
        pause=0.0,
        echo=0.0,
        noise=None,
        color=0.0,
        tempo=0.0,
        throat=0.0,
        microphone=0.0,
        gaps=None,
        seed=None,
    ):
        super().__init__(dtype="float32")
        self.rate, self.bands = reader["rate"], reader["bands"]
        self.window, self.hop = (round(reader[name] * self.rate) for name in ("window", "hop"))
        self.decibels = reader.get("decibels")
        self.each_band = reader.get("each_band", False)
        self.speed, self.pause, self.echo, self.noise = speed, pause, echo, noise
        self.color, self.tempo, self.throat, self.microphone = color, tempo, throat, microphone
        self.gaps = gaps
        self.seeds = keras.random.SeedGenerator(seed)

    def call(self, sounds):
        waves, lengths = as_floats(sounds["samples"]), ops.cast(sounds["lengths"], "int32")
        if self.speed:
            waves, lengths = faster(waves, lengths, self.speed, self.seeds)
        if self.pause:
            samples = round(self.pause * self.rate)
            waves, lengths = with_pauses(waves, lengths, samples, self.seeds)
        if self.echo:
            waves = with_echoes(waves, self.echo, self.rate, self.seeds)
        if self.noise:
            waves = with_noise(waves, lengths, self.noise, self.color, self.seeds)
        frames = log_mel(waves, self.rate, self.bands, self.window, self.hop)
        lengths = ops.where(lengths > 0, 1 + lengths // self.hop, 0)
        if self.tempo:
            frames, lengths = faster(frames, lengths, self.tempo, self.seeds)
        if self.throat:
            frames = of_another_throat(frames, self.throat, self.seeds)
        if self.microphone:
            frames = of_another_microphone(frames, self.microphone, self.seeds)
        frames = normalized(frames, lengths, self.decibels, self.each_band)
        if self.gaps:
            frames = with_gaps(frames, lengths, seeds=self.seeds, **self.gaps)
        return {"frames": frames, "lengths": lengths}


def as_floats(samples):
    """Returns samples from -1 to 1, for 16-bit integers or floats."""
    is_integer = "int" in keras.backend.standardize_dtype(samples.dtype)
    return ops.cast(samples, "float32") / (32768.0 if is_integer else 1.0)


def faster(x, lengths, largest, seeds):
    """Plays each sound faster or slower by a random factor, with linear interpolation.

    This changes the pitch of samples, but not that of spectrograms.

    Ko et al. 2015, Audio Augmentation for Speech Recognition
    (https://www.isca-archive.org/interspeech_2015/ko15_interspeech.html).

    Args:
        x: float32 `(batch, points, ...)`.
        lengths: int32 `(batch,)`, the number of points of each.
        largest: Logarithm of the largest change.
        seeds: Seed generator.

    Returns:
        The new `x`, zeros after each end, and the new `lengths`.

    Example:

    >>> seeds = keras.random.SeedGenerator(1)
    >>> x, lengths = faster(ops.ones((1, 8)), ops.array([8]), 0.0, seeds)
    >>> np.array(x).tolist(), np.array(lengths).tolist()
    ([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]], [8])
    """
    batch, points = ops.shape(x)[:2]
    speed = ops.exp(keras.random.uniform((batch,), -largest, largest, seed=seeds))
    width = -(-points * math.ceil(100 * math.exp(largest)) // 100)
    new_lengths = ops.cast(ops.ceil(ops.cast(lengths, "float32") / speed), "int32")
    new_lengths = ops.minimum(new_lengths, width)
    numbers = ops.arange(width)
    last = ops.maximum(lengths - 1, 0)[:, None]
    places = ops.cast(numbers, "float32") * speed[:, None]  # (batch, width)
    places = ops.minimum(places, ops.cast(last, "float32"))
    left = ops.cast(places, "int32")
    share = _like(places - ops.cast(left, "float32"), x)
    found = _at(x, left) * (1.0 - share) + _at(x, ops.minimum(left + 1, last)) * share
    return ops.where(_like(numbers < new_lengths[:, None], x), found, 0.0), new_lengths


def with_pauses(waves, lengths, longest, seeds):
    """Adds random silence before and after each sound; each of the two is none half of the time.

    Args:
        waves: float32 `(batch, samples)`.
        lengths: int32 `(batch,)`, the number of samples of each.
        longest: Maximum number of samples added at each end.
        seeds: Seed generator.

    Returns:
        The new `waves` and `lengths`.
    """
    batch, samples = ops.shape(waves)
    pauses = keras.random.uniform((2, batch), -longest, longest, seed=seeds)
    before, behind = ops.unstack(ops.cast(ops.maximum(pauses, 0.0), "int32"), 2)
    places = ops.arange(samples + 2 * longest) - before[:, None]
    is_sound = (places >= 0) & (places < lengths[:, None])
    found = _at(waves, ops.clip(places, 0, samples - 1))
    return ops.where(is_sound, found, 0.0), lengths + before + behind


def with_echoes(waves, loudest, rate, seeds):
    """Plays each sound in a random room, whose impulse response is fading noise.

    Args:
        waves: float32 `(batch, samples)`.
        loudest: Root of the energy of the loudest echoes, relative to that of the direct sound.
        rate: Samples per second.
        seeds: Seed generator.
    """
    batch, samples = ops.shape(waves)
    size = round(ECHO * rate)
    fading = keras.random.uniform((batch, 1), *(rate * each for each in FADING), seed=seeds)
    loudness = keras.random.uniform((batch, 1), 0.0, loudest, seed=seeds)
    echoes = keras.random.normal((batch, size), seed=seeds)
    echoes = echoes * ops.exp(-ops.arange(size, dtype="float32") / fading)
    echoes = echoes * loudness / ops.sqrt(ops.sum(ops.square(echoes), axis=1, keepdims=True))
    answer = ops.concatenate([ops.ones((batch, 1)), echoes], axis=1)
    whole = samples + size
    (a, b), (c, d) = ops.rfft(waves, whole), ops.rfft(answer, whole)
    return ops.irfft((a * c - b * d, a * d + b * c), whole)[:, :samples]


def with_noise(waves, lengths, decibels, color, seeds):
    """Adds noise of a random color to each sound, at a random signal-to-noise ratio.

    Args:
        waves: float32 `(batch, samples)`, zeros after the end of each.
        lengths: int32 `(batch,)`, the number of samples of each.
        decibels: Minimum and maximum signal-to-noise ratio.
        color: Standard deviation of each of the four cosines over the frequencies whose sum is the
            logarithm of the amplitudes; 0 is white noise.
        seeds: Seed generator.
    """
    batch, samples = ops.shape(waves)
    count = ops.cast(ops.maximum(lengths, 1), "float32")
    power = ops.sum(ops.square(waves), axis=1) / count
    difference = keras.random.uniform((batch,), *decibels, seed=seeds)
    loudness = ops.sqrt(power) * 10.0 ** (-difference / 20.0)
    frequencies = samples // 2 + 1
    spectrum = keras.random.normal((2, batch, frequencies), seed=seeds)
    spectrum = spectrum * ops.exp(_curves(batch, frequencies, color, seeds))
    noise = ops.irfft((spectrum[0], spectrum[1]), samples)
    noise = noise / ops.sqrt(ops.mean(ops.square(noise), axis=1, keepdims=True))
    return waves + noise * loudness[:, None]


def log_mel(waves, rate, bands, window, hop):
    """Does the same as `zoo.readers.log_mel.log_mel`."""
    size = fft_size(window)
    padded = ops.pad(waves, [[0, 0], [size // 2, size // 2]])
    frames = ops.extract_sequences(padded, size, hop)  # (batch, frames, size)
    real, imaginary = ops.rfft(frames * hann_window(window, size), size)
    triangles = mel_triangles(rate, bands, size).astype("float32")
    power = ops.matmul(ops.square(real) + ops.square(imaginary), triangles)
    return ops.log(ops.maximum(power, FLOOR))


def normalized(frames, lengths, decibels=None, each_band=False):
    """Returns the same `frames` as `zoo.SoundReader.normalized`."""
    is_frame = ops.arange(ops.shape(frames)[1]) < lengths[:, None]
    is_frame = ops.cast(is_frame, "float32")[..., None]
    count = ops.cast(ops.maximum(lengths, 1), "float32")[:, None, None]
    if decibels is not None:
        heard = ops.where(is_frame > 0.0, frames, ops.min(frames))
        loudest = ops.max(heard, axis=(1, 2), keepdims=True)
        frames = ops.maximum(frames, loudest - decibels * NEPERS)
    means = ops.sum(frames * is_frame, axis=1, keepdims=True) / count  # (batch, 1, bands)
    centre = means if each_band else ops.mean(means, axis=2, keepdims=True)
    centred = (frames - centre) * is_frame
    squares = ops.mean(ops.square(centred), axis=2, keepdims=True)
    deviation = ops.sqrt(ops.sum(squares, axis=1, keepdims=True) / count) + 1e-5
    return centred / deviation


def of_another_throat(frames, largest, seeds):
    """Stretches the bands of each spectrogram, to imitate vocal tracts of different lengths.

    Jaitly and Hinton 2013, Vocal Tract Length Perturbation Improves Speech Recognition
    (https://www.cs.toronto.edu/~hinton/absps/perturb.pdf), here on the mel scale.

    Args:
        frames: float32 `(batch, frames, bands)`.
        largest: Largest relative change of the index of a band.
        seeds: Seed generator.

    Example:

    >>> still = of_another_throat(ops.ones((1, 2, 4)), 0.0, keras.random.SeedGenerator(1))
    >>> bool(ops.all(still == 1.0))
    True
    """
    batch, bands = ops.shape(frames)[0], frames.shape[2]
    change = keras.random.uniform((batch, 1), 1.0 - largest, 1.0 + largest, seed=seeds)
    numbers = ops.arange(bands, dtype="float32")
    places = ops.minimum(numbers * change, bands - 1.0)
    # Hat functions around the places: a product interpolates between neighbours.
    distances = ops.abs(numbers[:, None] - places[:, None, :])  # (batch, bands, bands)
    return ops.matmul(frames, ops.maximum(1.0 - distances, 0.0))


def of_another_microphone(frames, deviation, seeds):
    """Adds a smooth random curve to the bands of each spectrogram, to imitate other microphones.

    Args:
        frames: float32 `(batch, frames, bands)`.
        deviation: Standard deviation of each of four cosines.
        seeds: Seed generator.

    Example:

    >>> still = of_another_microphone(ops.ones((1, 2, 4)), 0.0, keras.random.SeedGenerator(1))
    >>> bool(ops.all(still == 1.0))
    True
    """
    curves = _curves(ops.shape(frames)[0], frames.shape[2], deviation, seeds)
    return frames + curves[:, None, :]


def with_gaps(frames, lengths, number, time, bands, seeds):
    """Sets some frames and some bands of each spectrogram to 0.

    Park et al. 2019, SpecAugment (https://arxiv.org/abs/1904.08779).

    Args:
        frames: float32 `(batch, frames, bands)`, normalized, so that 0 is the mean.
        lengths: int32 `(batch,)`, the number of frames of each.
        number: Number of gaps in time, and also number of gaps among the bands.
        time, bands: Largest gap, as a fraction of the frames and of the bands.
        seeds: Seed generator.
    """
    batch, longest, all_bands = ops.shape(frames)

    def gaps(counts, largest, places):
        draws = keras.random.uniform((2, batch, number), seed=seeds)
        width = draws[0] * largest * counts
        first = draws[1] * (counts - width)
        places = ops.arange(places, dtype="float32")[:, None]
        inside = (places >= first[:, None]) & (places + 1.0 <= (first + width)[:, None])
        return ops.any(inside, axis=-1)  # (batch, places)

    in_time = gaps(ops.cast(lengths, "float32")[:, None], time, longest)[:, :, None]
    in_bands = gaps(float(frames.shape[2]), bands, all_bands)[:, None, :]
    return ops.where(in_time | in_bands, 0.0, frames)


def _at(x, places):
    """Returns the points of each row of `x` at integer places `(batch, width)`."""
    batch, points, *rest = ops.shape(x)
    rows = ops.arange(batch)[:, None] * points
    return ops.take(ops.reshape(x, (-1, *rest)), rows + places, axis=0)


def _like(each, x):
    """Returns one number for each point `(batch, points)`, in a shape that broadcasts to `x`."""
    return each if len(x.shape) == 2 else each[..., None]


def _curves(batch, count, deviation, seeds):
    """Returns smooth random curves, float32 `(batch, count)`, each the sum of four cosines."""
    places = ops.arange(count, dtype="float32") / ops.cast(count, "float32")
    numbers = ops.arange(1, CURVES + 1, dtype="float32")[:, None]
    draws = keras.random.normal((batch, CURVES), stddev=deviation, seed=seeds)
    return ops.matmul(draws, ops.cos(math.pi * numbers * places))
