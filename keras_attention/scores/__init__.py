"""Scores: how well does a key answer a query?"""

from keras_attention._registry import Registry
from keras_attention.scores.additive import Additive
from keras_attention.scores.base import Score
from keras_attention.scores.dot import Dot, General, ScaledDot

_registry = Registry(
    "score",
    Score,
    {"additive": Additive, "dot": Dot, "general": General, "scaled_dot": ScaledDot},
)
get = _registry.get
names = _registry.names

__all__ = ["Additive", "Dot", "General", "ScaledDot", "Score", "get", "names"]
