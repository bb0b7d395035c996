"""Checks of the arguments of masks, and lookups in their tables."""

from numbers import Real

import keras
import numpy as np
from keras import ops

from keras_attention._backend import shape_of
from keras_attention.masks.base import Mask


def as_boolean(mask, name, ranks):
    """Returns an array mask as a boolean tensor. Numbers are read as in Keras: only 0 hides.

    Args:
        mask: Tensor of booleans or numbers, `True` or 1 for what may be seen.
        name: Name of the argument, for the error message.
        ranks: The allowed numbers of axes.

    Raises:
        ValueError: If the mask has another number of axes, is a rule or a name, or has numbers as
            for `require_visible`.
    """
    if isinstance(mask, Mask | str):
        raise ValueError(
            f"`{name}` must be an array of booleans. Received: {mask!r}, a rule. Make the layer "
            "with it, such as Attention(mask=masks.Causal()) or Attention(mask='causal')."
        )
    require_visible(mask, name)
    mask = ops.convert_to_tensor(mask)
    if len(mask.shape) not in ranks:
        expected = " or ".join(str(rank) for rank in ranks)
        raise ValueError(
            f"`{name}` must have {expected} axes. Received: shape {tuple(mask.shape)}. Padding of "
            "shape (batch, length) is a query_mask, value_mask or key_mask; an attention_mask has "
            "the shape (query_length, key_length), optionally with batch and heads axes in front."
        )
    return ops.cast(mask, "bool")


def require_visible(mask, name):
    """Raises a `ValueError` for an array or list with numbers below 0 or NaN, added to scores.

    Tensors are not checked: their values may not be known yet, or may have to be fetched.
    """
    if isinstance(mask, list | tuple):
        mask = np.array([each for each in keras.tree.flatten(mask) if isinstance(each, Real)])
    if isinstance(mask, np.ndarray) and mask.dtype.kind in "fi" and not np.all(mask >= 0):
        raise ValueError(
            f"`{name}` must be True or 1 where something may be seen, and False or 0 where not. "
            f"Received: numbers with the lowest value {np.min(mask)}. For a mask that is added to "
            "the scores, 0 where something may be seen, pass mask == 0."
        )


def integer(mask, name, value, least, hint):
    """Returns an argument of a mask as an `int`.

    Args:
        mask: The mask that the argument belongs to.
        name: Name of the argument.
        value: The value received.
        least: The smallest value allowed.
        hint: How to fix the error, for the error message.

    Raises:
        ValueError: If it is not an integer or too small.
    """
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or value < least:
        raise ValueError(
            f"`{name}` of {type(mask).__name__} must be an integer of at least {least}. "
            f"Received: {name}={value!r}. {hint}"
        )
    return int(value)


def odd(mask, name, value):
    """Returns an argument of a mask as an odd `int`: a number of blocks around the own one."""
    hint = "It counts blocks, with the query's own block in the middle; 1 is only that block."
    value = integer(mask, name, value, 1, hint)
    if value % 2 == 0:
        raise ValueError(
            f"`{name}` of {type(mask).__name__} must be odd. Received: {name}={value}. {hint}"
        )
    return value


def integers(mask, name, value, ranks, shape):
    """Returns an argument of a mask as int32: a tensor if it is one, else a NumPy array.

    Args:
        mask: The mask that the argument belongs to.
        name: Name of the argument.
        value: The value received.
        ranks: The allowed numbers of axes.
        shape: Description of the expected shape, for the error message.

    Raises:
        ValueError: If it has another number of axes or is not made of integers.
    """
    is_tensor = ops.is_tensor(value)
    array = value if is_tensor else np.asarray(value)
    dtype = keras.backend.standardize_dtype(array.dtype) if is_tensor else array.dtype.name
    if "int" not in dtype or len(array.shape) not in ranks:
        cast, reshape = f"keras.ops.cast({name}, 'int32')", f"keras.ops.reshape({name}, ...)"
        raise ValueError(
            f"`{name}` of {type(mask).__name__} must be {shape}. Received: dtype {dtype}, shape "
            f"{tuple(array.shape)}. Use {reshape if 'int' in dtype else cast}."
        )
    return ops.cast(array, "int32") if is_tensor else array.astype("int32")


def is_static(queries, keys):
    """Whether all positions, and therefore the result, are plain numbers or NumPy arrays."""
    return not any(ops.is_tensor(position) for position in (*queries, *keys))


def refuse_to_save(mask, name):
    """Raises the `ValueError` for saving masks that contain data."""
    raise ValueError(
        f"The mask {type(mask).__name__} cannot be saved, because its `{name}` is data of one "
        "batch. Save the layer without it and pass the mask with the call: value_mask, key_mask "
        "and query_mask for padding, attention_mask=mask(query_length, key_length) for the rest."
    )


def look_up(table, positions, axis):
    """Returns `(entries, inside)`: a table's entries at positions, and whether these exist."""
    length = shape_of(table)[axis]
    inside = (positions >= 0) & (positions < length)
    nearest = ops.maximum(ops.minimum(positions, length - 1), 0)
    return ops.take(table, nearest, axis=axis), inside
