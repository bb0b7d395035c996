"""How a model in training hears sounds: each time a little different, on any backend.

It is what `zoo.SoundReader` does, and in between what makes another voice, another room and another
microphone of a sound. All of it is drawn for each sound anew, by a `keras.random.SeedGenerator`.
"""

import math

import keras
from keras import ops

from zoo.readers.mel import FLOOR, NEPERS, fft_size, hann_window, mel_triangles

CURVES = 4  # cosines of which a smooth curve is made
ECHO = 0.3  # seconds after which no echo is heard
FADING = (0.02, 0.1)  # seconds in which echoes fade to 1 / e, at least and at most


class Hearing(keras.layers.Layer):
    """Makes spectrograms of sounds, of each another one in each call.

    With the defaults, nothing is changed, and they are those of the reader.

    Args:
        reader: Config of the `zoo.SoundReader`.
        speed: Logarithm of the largest change of the speed, and of the pitch with it; see `faster`.
        pause: Longest silence before a sound and behind it, in seconds; see `with_pauses`.
        echo: Loudest echoes, see `with_echoes`.
        noise: Least and most decibels of a sound above its noise, or `None`.
        color: How much the loudness of the noise differs among frequencies, see `with_noise`.
        tempo: Logarithm of the largest change of the speed that leaves the pitch.
        throat: Largest stretching of the bands, see `of_another_throat`.
        microphone: How much the loudness of bands differs, see `of_another_microphone`.
        gaps: Arguments of `with_gaps`, or `None`.
        seed: Integer seed.

    Call arguments:
        sounds: Dictionary of `samples` `(batch, samples)`, integers of 16 bits or floats from -1 to
            1, and `lengths`, int32 `(batch,)`, how many samples of each count; the others are 0.

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
    """Returns samples from -1 to 1, of integers of 16 bits or floats."""
    is_integer = "int" in keras.backend.standardize_dtype(samples.dtype)
    return ops.cast(samples, "float32") / (32768.0 if is_integer else 1.0)


def faster(x, lengths, largest, seeds):
    """Plays each sound up to so much faster or slower, in a straight line from point to point.

    By this the pitch of samples changes, too, and that of spectrograms does not.

    Ko et al. 2015, Audio Augmentation for Speech Recognition
    (https://www.isca-archive.org/interspeech_2015/ko15_interspeech.html).

    Args:
        x: float32 `(batch, points, ...)`.
        lengths: int32 `(batch,)`, how many points of each count.
        largest: Logarithm of the largest change.
        seeds: Seed generator.

    Returns:
        Such `x` with 0 behind each end, and such `lengths`.

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
    """Begins each sound so much later, and ends it so much later: half of the time at once.

    Args:
        waves: float32 `(batch, samples)`.
        lengths: int32 `(batch,)`, how many samples of each count.
        longest: Samples that are added at most, at each end.
        seeds: Seed generator.

    Returns:
        Such `waves` and `lengths`.
    """
    batch, samples = ops.shape(waves)
    pauses = keras.random.uniform((2, batch), -longest, longest, seed=seeds)
    before, behind = ops.unstack(ops.cast(ops.maximum(pauses, 0.0), "int32"), 2)
    places = ops.arange(samples + 2 * longest) - before[:, None]
    is_sound = (places >= 0) & (places < lengths[:, None])
    found = _at(waves, ops.clip(places, 0, samples - 1))
    return ops.where(is_sound, found, 0.0), lengths + before + behind


def with_echoes(waves, loudest, rate, seeds):
    """Plays each sound in a room of its own: noise that fades is its answer to a click.

    Args:
        waves: float32 `(batch, samples)`.
        loudest: Root of the energy of the loudest echoes, as a part of that of the click.
        rate: Samples a second.
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
    """Adds noise of a random color, so much softer than each sound.

    Args:
        waves: float32 `(batch, samples)`.
        lengths: int32 `(batch,)`, how many samples of each count; the others are 0.
        decibels: Least and largest difference.
        color: Standard deviation of each of four cosines over the frequencies, of the logarithm of
            amplitudes; 0 is white noise.
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
    """Returns what `zoo.readers.log_mel.log_mel` returns."""
    size = fft_size(window)
    padded = ops.pad(waves, [[0, 0], [size // 2, size // 2]])
    frames = ops.extract_sequences(padded, size, hop)  # (batch, frames, size)
    real, imaginary = ops.rfft(frames * hann_window(window, size), size)
    triangles = mel_triangles(rate, bands, size).astype("float32")
    power = ops.matmul(ops.square(real) + ops.square(imaginary), triangles)
    return ops.log(ops.maximum(power, FLOOR))


def normalized(frames, lengths, decibels=None, each_band=False):
    """Returns the `frames` that `zoo.SoundReader.normalized` returns."""
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
    """Stretches the bands of each spectrogram, as the lengths of vocal tracts differ.

    Jaitly and Hinton 2013, Vocal Tract Length Perturbation Improves Speech Recognition
    (https://www.cs.toronto.edu/~hinton/absps/perturb.pdf), here along mels.

    Args:
        frames: float32 `(batch, frames, bands)`.
        largest: Largest change of a band's number, as a part of it.
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
    """Adds a smooth random curve to the bands of each log-mel spectrogram, as microphones differ.

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
    """Hides some frames, and some bands, of each spectrogram: they become 0.

    Park et al. 2019, SpecAugment (https://arxiv.org/abs/1904.08779).

    Args:
        frames: float32 `(batch, frames, bands)`, normalized, so that 0 is the mean.
        lengths: int32 `(batch,)`, how many frames of each count.
        number: Gaps in the time, and as many among the bands.
        time, bands: Largest gap, as a part of the frames, and of the bands.
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
    """Returns a number of each point `(batch, points)` so that it multiplies `x`."""
    return each if len(x.shape) == 2 else each[..., None]


def _curves(batch, count, deviation, seeds):
    """Returns smooth random curves, float32 `(batch, count)`, of four cosines each."""
    places = ops.arange(count, dtype="float32") / ops.cast(count, "float32")
    numbers = ops.arange(1, CURVES + 1, dtype="float32")[:, None]
    draws = keras.random.normal((batch, CURVES), stddev=deviation, seed=seeds)
    return ops.matmul(draws, ops.cos(math.pi * numbers * places))
