"""Attention over chosen axes of inputs with more than three axes."""

import math

from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._checks import agree


class AttendedAxes:
    """Turns inputs of any rank into sequences, and the outputs of attention back.

    The attended axes are flattened into one length, row by row; the other axes join the batch.

    Args:
        owner: Name of the layer, for error messages.
        query_shape, value_shape, key_shape: Shapes `(batch, …, size)` of the same rank.
        axes: Integers, the axes to attend over; `None` for all between batch and size.

    Raises:
        ValueError: If the inputs have no such axes, or their shapes do not match.
    """

    def __init__(self, owner, query_shape, value_shape, key_shape, axes=None):
        self.owner, rank = owner, len(query_shape)
        shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
        received = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        if rank < 3 or any(len(shape) != rank for shape in shapes.values()):
            raise ValueError(
                f"{owner} needs query, value and key of shape (batch, length, size), or with "
                "several axes in place of the length; their ranks must be equal. Received: "
                f"{received}. Add a length axis to a single vector with x[:, None, :]; turn images "
                "into sequences with keras.layers.Reshape((height * width, channels))."
            )
        if not agree(value_shape[:-1], key_shape[:-1]):
            raise ValueError(
                f"{owner} needs one value for each key. Received: {received}. All axes of value "
                "and key but the last must be equal."
            )
        inner = range(1, rank - 1)
        axes = inner if axes is None else axes
        self.attended = tuple(axis + rank if axis < 0 else axis for axis in axes)
        if not set(self.attended) <= set(inner) or len(set(self.attended)) < len(self.attended):
            raise ValueError(
                f"`attention_axes` of {owner} must name axes between batch and size, here from "
                f"{tuple(inner)}, each at most once. Received: attention_axes={tuple(axes)}, "
                f"{received}."
            )
        self.others = (0, *(axis for axis in inner if axis not in self.attended))
        if not agree(_part(query_shape, self.others), _part(value_shape, self.others)):
            raise ValueError(
                f"{owner} needs one memory for each query sequence. Received: {received}. The axes "
                f"{self.others}, which are not attended over, must be equal; repeat the smaller "
                "one with keras.ops.repeat."
            )

    def flat_shape(self, shape):
        """Returns the shape `(batch, length, size)` of the sequences, with `None` where unknown."""
        return _product(shape, self.others), _product(shape, self.attended), shape[-1]

    def flat(self, x):
        """Returns a tensor as sequences `(batch, length, size)`."""
        x = ops.transpose(x, (*self.others, *self.attended, len(x.shape) - 1))
        shape, joined = shape_of(x), len(self.others)
        return ops.reshape(x, (math.prod(shape[:joined]), math.prod(shape[joined:-1]), shape[-1]))

    def flat_padding(self, mask):
        """Returns a padding mask `(batch, …)` as `(batch, length)`."""
        return None if mask is None else self.flat(mask[..., None])[..., 0]

    def flat_pairs(self, mask, query, value):
        """Returns an `attention_mask` as `(batch, heads, query_length, key_length)`.

        Args:
            mask: `(*others, heads, *attended axes of the query, *those of the key)`. Any axis may
                have size 1; missing axes are inserted directly before the query axes.
            query, value: The tensors.
        """
        if mask is None:
            return None
        joined, length = len(self.others), len(self.attended)
        rank = joined + 1 + 2 * length
        mask = masks.as_boolean(mask, "attention_mask", ranks=range(2 * length, rank + 1))
        own = shape_of(mask)
        missing = [1] * (rank - len(own))
        mask = ops.reshape(mask, (*own[: -2 * length], *missing, *own[-2 * length :]))

        def whole(of_query, of_value, heads):
            rows, columns = _part(of_query, self.attended), _part(of_value, self.attended)
            return [*_part(of_query, self.others), heads, *rows, *columns]

        static = [None if size == 1 else size for size in mask.shape]
        expected = whole(query.shape, value.shape, None)
        if not agree(static, expected):
            raise ValueError(
                f"`attention_mask` of {self.owner} must have the shape (batch, *others, heads, "
                f"*query axes, *key axes), here {tuple(expected)} with the heads as None; any of "
                f"them may be 1. Received: shape {tuple(mask.shape)}, with missing axes "
                "filled in as 1."
            )
        heads = shape_of(mask)[joined]
        shape = whole(shape_of(query), shape_of(value), heads)
        batch, rows, columns = shape[:joined], shape[-2 * length : -length], shape[-length:]
        mask = ops.broadcast_to(mask, shape)
        return ops.reshape(mask, (math.prod(batch), heads, math.prod(rows), math.prod(columns)))

    def restored(self, x, query):
        """Returns `(batch, length, *features)` with the axes of the query restored."""
        own, features = shape_of(query), shape_of(x)[2:]
        now = (*self.others, *self.attended)
        x = ops.reshape(x, (*_part(own, now), *features))
        order = sorted(range(len(now)), key=now.__getitem__)
        return ops.transpose(x, (*order, *range(len(now), len(now) + len(features))))

    def restored_weights(self, weights, query, value):
        """Returns `(*others, heads, *attended axes of the query, *those of the key)`."""
        of_query, of_value = shape_of(query), shape_of(value)
        rows, columns = _part(of_query, self.attended), _part(of_value, self.attended)
        heads = shape_of(weights)[1]
        return ops.reshape(weights, (*_part(of_query, self.others), heads, *rows, *columns))


def _part(shape, axes):
    return [shape[axis] for axis in axes]


def _product(shape, axes):
    sizes = _part(shape, axes)
    return None if None in sizes else math.prod(sizes)
