"""Scores: how well a key matches a query."""

import keras

from keras_attention._registry import Registry
from keras_attention.scores.additive import Additive, LinearAdditive
from keras_attention.scores.base import Score
from keras_attention.scores.distance import Euclidean, Gaussian
from keras_attention.scores.dot import Cosine, Dot, General, ScaledDot
from keras_attention.scores.function import Function, is_function
from keras_attention.scores.kernels import Boxcar, Epanechnikov, Kernel, Triangular
from keras_attention.scores.positional import Location
from keras_attention.scores.synthesizers import DenseSynthesizer, RandomSynthesizer
from keras_attention.scores.trilinear import Trilinear

_registry = Registry(
    "score",
    Score,
    {
        "additive": Additive,
        "boxcar": Boxcar,
        "cosine": Cosine,
        "dense_synthesizer": DenseSynthesizer,
        "dot": Dot,
        "epanechnikov": Epanechnikov,
        "euclidean": Euclidean,
        "gaussian": Gaussian,
        "general": General,
        "linear_additive": LinearAdditive,
        "location": Location,
        "random_synthesizer": RandomSynthesizer,
        "scaled_dot": ScaledDot,
        "triangular": Triangular,
        "trilinear": Trilinear,
    },
)
names = _registry.names


def get(identifier, dtype=None):
    """Returns the score for a name, a config, or a function; returns a score unchanged.

    Args:
        identifier: A name, a config, a function of queries and keys, or a `Score`.
        dtype: Keras dtype policy of a score that is created from a name or a function.

    Raises:
        ValueError: For an unknown name, listing the closest names; for any other type.
    """
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if is_function(identifier):
        return Function(identifier, dtype=dtype)
    return _registry.get(identifier, dtype=dtype)


__all__ = [
    "Additive",
    "Boxcar",
    "Cosine",
    "DenseSynthesizer",
    "Dot",
    "Epanechnikov",
    "Euclidean",
    "Function",
    "Gaussian",
    "General",
    "Kernel",
    "LinearAdditive",
    "Location",
    "RandomSynthesizer",
    "ScaledDot",
    "Score",
    "Triangular",
    "Trilinear",
    "get",
    "names",
]
