"""Alignments: attention weights of a recurrent decoder that follow those of the step before."""

from keras_attention._registry import Registry
from keras_attention.alignments.base import Alignment
from keras_attention.alignments.forward import Forward
from keras_attention.alignments.monotonic import Monotonic, Stepwise

_registry = Registry(
    "alignment",
    Alignment,
    {
        "forward": Forward,
        "monotonic": Monotonic,
        "stepwise": Stepwise,
    },
)
get = _registry.get
names = _registry.names

__all__ = ["Alignment", "Forward", "Monotonic", "Stepwise", "get", "names"]
