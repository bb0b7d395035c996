"""A model that reads an input at once as one graph of numbers, for run-times without strings."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class Encode(NamedTuple):
    """What a model computes of token ids.

    Attributes:
        function: Takes int32 `token_ids`, `attention_mask`, 1 for tokens and 0 for padding, and,
            if there are segments, `segment_ids`, each `(batch, length)`. Returns a dictionary of
            tensors with the batch first.
        has_segments: Whether it takes segments.
        length: Tokens at most, and where shapes must be fixed.
    """

    function: Callable
    has_segments: bool
    length: int

    def graphs(self, core, is_fixed=False):
        """Returns the graph, as `zoo.serving.steps.Start.graphs` does."""
        names = ["token_ids", "attention_mask", *["segment_ids"] * self.has_segments]
        shape = [1, self.length] if is_fixed else [None, None]
        signature = [tf.TensorSpec(shape, tf.int32, name=name) for name in names]
        return {"model": (self.function, signature)}
