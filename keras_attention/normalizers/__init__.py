"""Normalizers: how scores become weights."""

from keras_attention._registry import Registry
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.dense import Sigmoid, Softmax, SoftmaxOne, Sum
from keras_attention.normalizers.hard import Hard
from keras_attention.normalizers.sparse import Entmax15, Sparsemax
from keras_attention.normalizers.stick_breaking import StickBreaking
from keras_attention.normalizers.top_k import TopK

_registry = Registry(
    "normalizer",
    Normalizer,
    {
        "entmax15": Entmax15,
        "hard": Hard,
        "sigmoid": Sigmoid,
        "softmax": Softmax,
        "softmax_one": SoftmaxOne,
        "sparsemax": Sparsemax,
        "stick_breaking": StickBreaking,
        "sum": Sum,
        "top_k": TopK,
    },
)
get = _registry.get
names = _registry.names

__all__ = [
    "Entmax15",
    "Hard",
    "Normalizer",
    "Sigmoid",
    "Softmax",
    "SoftmaxOne",
    "Sparsemax",
    "StickBreaking",
    "Sum",
    "TopK",
    "get",
    "names",
]
