"""Data sets that TensorFlow Datasets lacks, as its builders, and helpers that load them."""

from zoo.datasets.multi30k import load_multi30k

__all__ = ["load_multi30k"]
