"""How every attention layer processes the arguments of its call, before the computation."""

import inspect

import keras
import numpy as np
from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._checks import agree, fits, require_dense
from keras_attention._keras import get_keras_mask
from keras_attention._recompute import Recomputable
from keras_attention.masks._arguments import require_visible


class ChecksArguments:
    """Mixin for layers: refuses ragged tensors, and masks that are none.

    It does so before Keras turns arrays into tensors.
    """

    def __call__(self, *args, **kwargs):
        names = list(inspect.signature(self.call).parameters)
        for name, argument in (*zip(names, args, strict=False), *kwargs.items()):
            require_dense(name, argument)
            if name.endswith("mask"):
                require_visible(argument, name)
        if "mask" in names and len(args) <= len(names):  # otherwise Keras tells that they are more
            # Keras hands a mask on to the next layer only if it is given by name.
            place = names.index("mask")
            kwargs = {**dict(zip(names[place:], args[place:], strict=False)), **kwargs}
            args = args[:place]
        return super().__call__(*args, **kwargs)

    def compute_mask(self, inputs, previous_mask):
        """Passes on the mask of the call combined with the implicit one, as booleans."""
        return both(as_booleans(previous_mask), get_keras_mask(inputs))


class AttentionLayer(ChecksArguments, Recomputable):
    """A layer called like Keras' attention layers: it checks shapes and combines masks.

    Attributes:
        num_heads: Number of heads.
        output_dim: Size of the output; `None` if it is the size of the query or the value.
    """

    num_heads = 1
    output_dim = None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, query, *args, **kwargs):
        if isinstance(query, list | tuple):
            raise ValueError(
                f"Query, value and key are separate arguments of {type(self).__name__}: "
                f"layer(query, value, key). Received: a list of {len(query)} as the query. "
                "Unpack it: layer(*inputs)."
            )
        return super().__call__(query, *args, **kwargs)

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        """Returns the shape of the output, without that of the weights."""
        self._require_fitting_shapes(query_shape, value_shape, key_shape or value_shape)
        return (*query_shape[:-1], self._output_size(query_shape, value_shape))

    def _output_size(self, query_shape, value_shape):
        return self.output_dim or query_shape[-1]

    def _ready(self, x, mask):
        """Returns floats with zeros at hidden positions: 0 · NaN and its gradient would be NaN."""
        x = as_floats(x, self.compute_dtype)
        return x if mask is None else ops.where(mask[:, :, None], x, ops.cast(0.0, x.dtype))

    def _padding_mask(self, name, mask, tensor):
        return padding_mask(type(self).__name__, name, mask, tensor)

    def _mask_of_call(self, attention_mask, use_causal_mask, query, value):
        """Returns the mask of pairs that a call specifies, a `Mask` or `None`."""
        mask = masks.Causal() if use_causal_mask else None
        if attention_mask is None:
            return mask
        return masks.combine(mask, masks.Array(self._pairs_mask(attention_mask, query, value)))

    def _pairs_mask(self, mask, query, value):
        """Returns an `attention_mask` as booleans, with axes of size 1 broadcast."""
        mask = masks.as_boolean(mask, "attention_mask", ranks=(2, 3, 4))
        lengths = query.shape[1], value.shape[1]
        front = (query.shape[0], self.num_heads)[: len(mask.shape) - 2]
        shape = [None if size == 1 else size for size in mask.shape]
        if not agree(shape, (*front, *lengths)):
            whole = (query.shape[0], self.num_heads, *lengths)
            raise ValueError(
                f"`attention_mask` of {type(self).__name__} must have the shape (query_length, "
                f"key_length), (batch, query_length, key_length) or (batch, heads, query_length, "
                f"key_length), here (batch, heads, query_length, key_length) = {whole}; any of "
                f"them may be 1. Received: shape {tuple(mask.shape)}."
            )
        pairs = shape_of(query)[1], shape_of(value)[1]
        return ops.broadcast_to(mask, (*shape_of(mask)[:-2], *pairs))

    def _require_fitting_shapes(self, query_shape, value_shape, key_shape):
        shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
        received = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        if any(len(shape) != 3 for shape in shapes.values()):
            raise ValueError(
                f"{type(self).__name__} needs query, value and key of shape (batch, length, size). "
                f"Received: {received}. Add a length axis to a single vector with x[:, None, :]; "
                "turn images into sequences with keras.layers.Reshape((height * width, channels))."
            )
        if not agree(value_shape[:2], key_shape[:2]):
            raise ValueError(
                f"{type(self).__name__} needs one value for each key. Received: {received}. "
                "Batch and length of value and key must be equal."
            )
        if not agree(query_shape[:1], key_shape[:1]):
            raise ValueError(
                f"{type(self).__name__} needs one memory for each query sequence. Received: "
                f"{received}. The batch sizes must be equal; repeat the smaller one with "
                "keras.ops.repeat."
            )


def require_sequence(owner, shape):
    """Raises a `ValueError` unless the shape is that of sequences."""
    if len(shape) != 3:
        raise ValueError(
            f"{owner} needs sequences of shape (batch, length, size). Received: shape "
            f"{tuple(shape)}. Turn images into sequences with "
            "keras.layers.Reshape((height * width, channels))."
        )


def require_built(layer, shapes):
    """Raises a `ValueError` that names the arguments of `build` if a layer has no weights yet."""
    if not layer.built:
        raise ValueError(
            f"The layer {layer.name!r} ({type(layer).__name__}) has no weights yet. Call "
            f"the layer once, or its build({shapes})."
        )


def as_floats(x, dtype):
    """Returns arrays, integers and booleans as floats of a dtype; tensors of floats stay."""
    is_float = keras.backend.is_float_dtype(x.dtype) and not isinstance(x, np.ndarray)
    return x if is_float else ops.cast(x, dtype)


def as_booleans(mask):
    """Returns a mask, which may be a list or hold numbers, as booleans; `None` stays."""
    if mask is None:
        return None
    if not hasattr(mask, "dtype"):
        return ops.convert_to_tensor(mask, "bool")
    is_boolean = keras.backend.standardize_dtype(mask.dtype) == "bool"
    return mask if is_boolean else ops.cast(mask, "bool")


def padding_mask(owner, name, mask, tensor):
    """Joins an explicit mask with the implicit one that Keras left on the tensor.

    Args:
        owner: Name of the layer, for error messages.
        name: Name of the argument, for error messages.
        mask: Boolean `(batch, length)`, the shape of the tensor without its last axis, or `None`.
        tensor: The tensor that the mask belongs to.

    Raises:
        ValueError: If one of the two masks has the wrong shape.
    """
    implicit, shape = get_keras_mask(tensor), tuple(tensor.shape[:-1])
    if implicit is not None and not fits(implicit.shape, shape):
        raise ValueError(
            f"The mask that Keras attached to a tensor, the `{name}` of {owner}, must have the "
            f"shape (batch, length) = {shape} of the tensor. Received: shape "
            f"{tuple(implicit.shape)}. Instead of the tensor x, pass keras.ops.copy(x), which has "
            f"no mask, and a `{name}`."
        )
    if mask is None or mask is implicit:
        return as_booleans(implicit)
    mask = masks.as_boolean(mask, name, ranks=(len(shape),))
    if not fits(mask.shape, shape):
        raise ValueError(
            f"`{name}` of {owner} must have the shape (batch, length) = {shape} of the tensor that "
            f"it belongs to. Received: shape {tuple(mask.shape)}. Pass one boolean for each "
            "position, True for positions that count."
        )
    return both(mask, implicit)


def with_padding(rules, memory, query_mask, end):
    """Returns the conjunction of masks of pairs and of padding, a `Mask` or `None`.

    Args:
        rules: Masks of pairs, or `None`.
        memory: A `Memory`, whose mask hides keys.
        query_mask: Boolean `(batch, query_length)` or `None`.
        end: Position after the last query.
    """
    keys = None if memory.mask is None else masks.Keys(memory.mask)
    queries = None if query_mask is None else masks.Queries(query_mask, end)
    return masks.combine(*rules, keys, queries)


def both(first, second):
    """Returns the conjunction of two masks; `None` hides nothing."""
    if first is None or first is second:
        return second
    return first if second is None else ops.logical_and(first, second)
