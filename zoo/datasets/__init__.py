"""Helpers that load data sets, and builders of those that TensorFlow Datasets lacks."""

from zoo.data.flickr8k import load_flickr8k
from zoo.data.multi30k import load_multi30k
from zoo.datasets.tiny_shakespeare import load_tiny_shakespeare

__all__ = ["load_flickr8k", "load_multi30k", "load_tiny_shakespeare"]
