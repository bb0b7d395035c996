"""Rotary positions beyond the training length, with scaled frequencies."""

import dataclasses
import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_attention._checks import is_positive_integer, is_positive_number


@dataclasses.dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """Base class of the scalings of frequencies in `positions.Rotary`.

    A custom scaling overrides `frequencies`. Its options are the fields of a frozen dataclass.

    Args:
        factor: `s`, the factor by which the context is extended.
    """

    factor: float

    def __post_init__(self):
        is_factor = is_positive_number(self.factor) and self.factor >= 1
        self._require(is_factor, "a number of at least 1", factor=self.factor)

    def frequencies(self, size, max_wavelength, positions):
        """Returns the angle from one position to the next, float32 `(size / 2,)`.

        Args:
            size: Number of dimensions that are rotated.
            max_wavelength: As for `Rotary`.
            positions: int32 `(length,)`, all positions that are rotated in this call.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `frequencies`.")

    @property
    def magnitude(self):
        """The factor by which queries and keys are multiplied."""
        return 1.0

    def _require(self, condition, expectation, **argument):
        if not condition:
            ((name, value),) = argument.items()
            raise ValueError(
                f"`{name}` of {type(self).__name__} must be {expectation}. "
                f"Received: {name}={value!r}."
            )

    def get_config(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable(package="keras_attention")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearScaling(RotaryScaling):
    """Position interpolation: all frequencies are divided by the same factor.

    $$ θ_i' = θ_i / s, \\quad θ_i = w^{-2i/d} $$

    Paper: Chen et al. 2023, Extending Context Window of Large Language Models via Positional
    Interpolation (https://arxiv.org/abs/2306.15595).

    Args:
        factor: `s`, the factor by which the context is extended.

    Raises:
        ValueError: If `factor` is below 1.

    Example:

    >>> LinearScaling(factor=4).frequencies(4, 10000, None).astype(float).round(4).tolist()
    [0.25, 0.0025]
    """

    def frequencies(self, size, max_wavelength, positions):
        return (frequencies_of(size, max_wavelength) / self.factor).astype("float32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FromOriginal(RotaryScaling):
    """A scaling that depends on the training length.

    Args:
        original_length: `L`, the number of positions in training.
    """

    original_length: int

    def __post_init__(self):
        super().__post_init__()
        is_length = is_positive_integer(self.original_length)
        self._require(is_length, "a positive integer", original_length=self.original_length)


@keras.saving.register_keras_serializable(package="keras_attention")
@dataclasses.dataclass(frozen=True, kw_only=True)
class DynamicScaling(_FromOriginal):
    """Dynamic NTK scaling: the base grows with the length `T` of the call once it exceeds `L`.

    $$ w' = w (s \\max(T, L) / L - (s - 1))^{d / (d - 2)} $$

    Source: "NTK-aware" scaling, dynamic; described by Peng et al. 2023, YaRN, section 3.3
    (https://arxiv.org/abs/2309.00071).

    A cache stores keys as they were rotated when added. So, as in other implementations, cached
    steps only equal the full forward pass up to the length `L`.

    Args:
        factor: `s`, the factor by which the context is extended.
        original_length: `L`, the number of positions in training.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> scaling = DynamicScaling(factor=2, original_length=4)
    >>> scaling.frequencies(4, 10000, np.arange(8)).numpy().astype(float).round(4).tolist()
    [1.0, 0.0033]
    """

    def frequencies(self, size, max_wavelength, positions):
        length = ops.max(positions, initial=self.original_length - 1) + 1
        ratio = ops.cast(length, "float32") / self.original_length
        growth = self.factor * ratio - (self.factor - 1)
        wavelength = max_wavelength * growth ** (size / max(size - 2, 1))
        return wavelength ** -(np.arange(0, size, 2) / size).astype("float32")


@keras.saving.register_keras_serializable(package="keras_attention")
@dataclasses.dataclass(frozen=True, kw_only=True)
class YaRN(_FromOriginal):
    """YaRN: low frequencies are divided, high ones are kept, and those between are interpolated.

    $$ θ_i' = (1 - γ_i) θ_i / s + γ_i θ_i, \\quad
       γ_i = 1 - clip((i - i_{fast}) / (i_{slow} - i_{fast}), 0, 1), \\quad
       i_r = d \\log(L / 2πr) / (2 \\log w) $$

    where `i_fast` is `i_r` for `r = fast_rotations`, rounded down, and `i_slow` is `i_r` for `r =
    slow_rotations`, rounded up: dimension `i_r` turns `r` times within `L`. Queries and keys are
    multiplied by `magnitude`, which is `0.1 log(s) + 1` unless `attention_factor` is given.

    Paper: Peng et al. 2023, YaRN: Efficient Context Window Extension of Large Language Models,
    section 3 (https://arxiv.org/abs/2309.00071).

    Args:
        factor: `s`, the factor by which the context is extended.
        original_length: `L`, the number of positions in training.
        fast_rotations, slow_rotations: Numbers of turns within `L`: frequencies of at least
            `fast_rotations` are kept, those of at most `slow_rotations` are divided.
        attention_factor: The magnitude, or `None` for the paper's.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> scaling = YaRN(factor=4, original_length=64)
    >>> scaling.frequencies(8, 10000, None).astype(float).round(4).tolist()
    [1.0, 0.0625, 0.0025, 0.0003]
    >>> round(scaling.magnitude, 4)
    1.1386
    """

    fast_rotations: float = 32.0
    slow_rotations: float = 1.0
    attention_factor: float | None = None

    def __post_init__(self):
        super().__post_init__()
        for name in ("fast_rotations", "slow_rotations", "attention_factor"):
            value = getattr(self, name)
            is_optional = name == "attention_factor" and value is None
            self._require(is_optional or is_positive_number(value), "above 0", **{name: value})

    @property
    def magnitude(self):
        if self.attention_factor is not None:
            return self.attention_factor
        return 0.1 * math.log(self.factor) + 1.0

    def frequencies(self, size, max_wavelength, positions):
        def dimension(rotations):
            turns = self.original_length / (2 * math.pi * rotations)
            return size * math.log(turns) / (2 * math.log(max_wavelength))

        fast = max(math.floor(dimension(self.fast_rotations)), 0)
        slow = min(math.ceil(dimension(self.slow_rotations)), size - 1)
        width = slow - fast or 0.001
        slowed = np.clip((np.arange(size // 2) - fast) / width, 0, 1)
        as_trained = frequencies_of(size, max_wavelength)
        mixed = slowed * as_trained / self.factor + (1 - slowed) * as_trained
        return mixed.astype("float32")


@keras.saving.register_keras_serializable(package="keras_attention")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Llama3Scaling(_FromOriginal):
    """Llama 3: long wavelengths are scaled, short ones are kept, and those between interpolated.

    $$ θ_i' = (1 - γ_i) θ_i / s + γ_i θ_i, \\quad
       γ_i = clip((L θ_i / 2π - low) / (high - low), 0, 1) $$

    Source: Llama Team 2024, The Llama 3 Herd of Models (https://arxiv.org/abs/2407.21783), models
    3.1 and later.

    Args:
        factor: `s`, the factor by which the context is extended.
        original_length: `L`, the number of positions in training.
        low, high: Numbers of turns within `L`: frequencies of at most `low` are divided by `s`,
            those of at least `high` are kept.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> scaling = Llama3Scaling(factor=8, original_length=64)
    >>> scaling.frequencies(8, 10000, None).astype(float).round(4).tolist()
    [1.0, 0.013, 0.0012, 0.0001]
    """

    low: float = 1.0
    high: float = 4.0

    def __post_init__(self):
        super().__post_init__()
        self._require(is_positive_number(self.low), "above 0", low=self.low)
        is_above = is_positive_number(self.high) and self.high > self.low
        self._require(is_above, f"a number above low={self.low}", high=self.high)

    def frequencies(self, size, max_wavelength, positions):
        as_trained = frequencies_of(size, max_wavelength)
        turns = self.original_length * as_trained / (2 * math.pi)
        kept = np.clip((turns - self.low) / (self.high - self.low), 0, 1)
        return ((1 - kept) * as_trained / self.factor + kept * as_trained).astype("float32")


@keras.saving.register_keras_serializable(package="keras_attention")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LongRoPE(_FromOriginal):
    """LongRoPE: each frequency is divided by a factor of its own, in long texts by another one.

    $$ θ_i' = θ_i / λ_i, \\quad λ = short \\text{ if } T ≤ L, \\text{ else } long $$

    for a call of the length `T`. Queries and keys are multiplied by `magnitude`, which is `sqrt(1 +
    log(s) / log(L))` unless `attention_factor` is given.

    Paper: Ding et al. 2024, LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens, section
    3 (https://arxiv.org/abs/2402.13753), which searches the factors; with two sets of them in Phi-3
    (Abdin et al. 2024, https://arxiv.org/abs/2404.14219).

    A cache stores keys as they were rotated when added. So cached steps equal the full forward pass
    only if it begins beyond the length `L`, or ends before.

    Args:
        factor: `s`, the factor by which the context is extended.
        original_length: `L`, the number of positions in training, at least 2.
        short, long: Sequences of a factor above 0 for each frequency, `d / 2`.
        attention_factor: The magnitude, or `None` for that of the paper.

    Raises:
        ValueError: If an argument is out of range, or for another number of factors.

    Example:

    >>> scaling = LongRoPE(factor=4, original_length=4, short=[1, 1], long=[1, 4])
    >>> scaling.frequencies(4, 100, np.arange(4)).numpy().astype(float).round(4).tolist()
    [1.0, 0.1]
    >>> scaling.frequencies(4, 100, np.arange(8)).numpy().astype(float).round(4).tolist()
    [1.0, 0.025]
    """

    short: Sequence[float]
    long: Sequence[float]
    attention_factor: float | None = None

    def __post_init__(self):
        super().__post_init__()
        is_length = self.original_length > 1
        self._require(is_length, "at least 2", original_length=self.original_length)
        for name in ("short", "long"):
            factors = getattr(self, name)
            is_sequence = isinstance(factors, list | tuple)
            is_valid = is_sequence and all(map(is_positive_number, factors))
            self._require(is_valid, "a list of numbers above 0", **{name: factors})
            object.__setattr__(self, name, tuple(factors))
        magnitude = self.attention_factor
        is_valid = magnitude is None or is_positive_number(magnitude)
        self._require(is_valid, "above 0", attention_factor=magnitude)

    @property
    def magnitude(self):
        if self.attention_factor is not None:
            return self.attention_factor
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))

    def frequencies(self, size, max_wavelength, positions):
        as_trained = frequencies_of(size, max_wavelength)
        for name in ("short", "long"):
            factors = getattr(self, name)
            expectation = f"one factor for each of the {len(as_trained)} frequencies of {size} "
            expectation += "rotated dimensions"
            self._require(len(factors) == len(as_trained), expectation, **{name: factors})
        short, long = ((as_trained / each).astype("float32") for each in (self.short, self.long))
        length = ops.max(positions, initial=0) + 1
        return ops.where(length > self.original_length, long, short)

    def get_config(self):
        return {**super().get_config(), "short": list(self.short), "long": list(self.long)}


def frequencies_of(size, max_wavelength):
    """Returns the angle from one position to the next at each wavelength of two dimensions.

    Args:
        size: Number of dimensions; if it is odd, the last wavelength has one dimension.
        max_wavelength: Upper limit of the wavelengths, in units of `2π`.

    Returns:
        A float64 array `(ceil(size / 2),)`.
    """
    return float(max_wavelength) ** -(np.arange(0, size, 2) / size)


def get(scaling):
    """Returns the scaling for a config; returns a scaling or `None` unchanged.

    Raises:
        ValueError: If it is not a scaling.
    """
    if isinstance(scaling, dict):
        scaling = keras.saving.deserialize_keras_object(scaling)
    if scaling is not None and not isinstance(scaling, RotaryScaling):
        raise ValueError(
            "`scaling` of Rotary must be None or one of positions.LinearScaling, DynamicScaling, "
            "YaRN, LongRoPE and Llama3Scaling, such as LinearScaling(factor=4). Received: "
            f"{scaling!r}."
        )
    return scaling
