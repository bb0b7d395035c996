"""The types of the arguments of tasks, for type checkers, and a check that tasks share."""

import os
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

import numpy as np

from zoo.decoding.base import Sampler, require
from zoo.decoding.processors import Processor


class Image(Protocol):
    """A `PIL.Image`."""

    @property
    def mode(self) -> str: ...
    @property
    def size(self) -> tuple[int, int]: ...


FilePath: TypeAlias = str | os.PathLike[str]
Texts: TypeAlias = Iterable[str]
Picture: TypeAlias = str | os.PathLike[str] | bytes | Image
Pictures: TypeAlias = Iterable[Picture | np.ndarray]
PictureOrPictures: TypeAlias = Picture | np.ndarray | Pictures
Sound: TypeAlias = str | os.PathLike[str] | bytes | tuple[np.ndarray, int]
Conversation: TypeAlias = Sequence[dict[str, str]]
SamplerLike: TypeAlias = str | Sampler | None
No: TypeAlias = Literal[False]
Yes: TypeAlias = Literal[True]


class _Options(TypedDict, total=False):
    """Options of samplers and of a request."""

    num_beams: int
    length_penalty: float
    exact: bool
    patience: float | None
    only_best_end: bool
    temperature: float
    k: int | None
    p: float
    processors: Sequence[Processor]
    end_ids: Sequence[int]
    seed: int
    max_length: int | None
    max_source_length: int


class Options(_Options, total=False):
    """Options of a call that may return several texts for each input."""

    num_return_sequences: int


class OneEach(_Options, total=False):
    """Options of a call that returns one text for each input."""

    num_return_sequences: Literal[1]
    batch_size: int
    jit_compile: bool


def require_dropout(subword_dropout: Any) -> None:
    """Raises a `ValueError` unless it is a probability."""
    is_probability = isinstance(subword_dropout, Real) and 0 <= subword_dropout <= 1
    require(is_probability, "a number from 0 to 1", subword_dropout=subword_dropout)
