"""Graphs of models without decoding, for runtimes that take numbers only."""

from typing import NamedTuple

import tensorflow as tf


class Encoders(NamedTuple):
    """The functions of a model that take numbers only.

    Attributes:
        functions: Dictionary of names to pairs `(function, inputs)`: inputs are `token_inputs` or
            `pixel_inputs`, and the function takes tensors of these names. It returns a dictionary
            of tensors with the batch first.
        length: Maximum number of tokens; their exact number where shapes must be fixed.
    """

    functions: dict
    length: int | None = None

    def graphs(self, core, is_fixed=False):
        """Returns the graphs, like `zoo.serving.steps.Start.graphs`."""
        if not is_fixed:
            return self.functions
        return {
            name: (function, [self._fixed(each) for each in inputs])
            for name, (function, inputs) in self.functions.items()
        }

    def _fixed(self, spec):
        sides = [side or self.length for side in spec.shape[1:]]
        return tf.TensorSpec([1, *sides], spec.dtype, name=spec.name)


def token_inputs(has_segments=False):
    """Returns int32 `token_ids`, `attention_mask`, 1 for tokens and 0 for padding, and, if there
    are segments, `segment_ids`, each `(batch, length)`.
    """
    names = ["token_ids", "attention_mask", *["segment_ids"] * has_segments]
    return [tf.TensorSpec([None, None], tf.int32, name=name) for name in names]


def pixel_inputs(reader):
    """Returns float32 `pixels` `(batch, rows, columns, channels)`, as from an `ImageReader`."""
    shape = [None, reader.size, reader.size, reader.channels]
    return [tf.TensorSpec(shape, tf.float32, name="pixels")]
