"""Data sets that TensorFlow Datasets lacks, as its builders, and helpers that load them."""

from zoo.datasets.flickr8k import load_flickr8k
from zoo.datasets.multi30k import load_multi30k

__all__ = ["load_flickr8k", "load_multi30k"]
