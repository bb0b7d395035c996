"""Masks: who may see whom? Rules on positions that compose with `&`, `|` and `~`."""

import keras
from keras import ops

from keras_attention._registry import Registry


class Mask:
    """Base class of all masks: a rule that answers for (query position, key position).

    `True` means "may look". A mask answers on tiles, so nobody needs the whole array:
    `tile(query_positions, key_positions)`. Keys stand at positions `0 … Tk - 1`, and queries are
    aligned to the end: query `i` of `Tq` stands at position `Tk - Tq + i`. With a cache, the one
    query of a step is then the last position and sees what it saw in the full forward pass.

    Masks compose: `Causal() & Keys(mask)`, `a | b`, `~a`. `mask(Tq, Tk)` is the whole array.

    Example:

    >>> Causal()(2, 3)[0, 0].numpy().astype(int).tolist()
    [[1, 1, 0], [1, 1, 1]]
    """

    def tile(self, query_positions, key_positions):
        """Returns booleans that broadcast to `(batch, heads, query_tile, key_tile)`, rank 4."""
        raise NotImplementedError(f"{type(self).__name__} must implement `tile`.")

    def may_see(self, queries, keys):
        """Whether any of some queries could see any of some keys, so that tiles can be left out.

        May say `True` where nothing is seen, never `False` where something is.

        Args:
            queries, keys: Pairs `(first, last)` of positions, both included: integers, arrays or
                tensors that broadcast to each other.

        Returns:
            Booleans in the shape that queries and keys broadcast to, or plain `True`.
        """
        return True

    def __call__(self, query_length, key_length):
        return self.tile(*positions(query_length, key_length))

    def __and__(self, other):
        return And(self, other)

    def __or__(self, other):
        return Or(self, other)

    def __invert__(self):
        return Not(self)

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def positions(query_length, key_length):
    """Returns the positions of queries and keys, the queries aligned to the end of the keys."""
    key_positions = ops.arange(key_length, dtype="int32")
    query_positions = ops.arange(query_length, dtype="int32") + (key_length - query_length)
    return query_positions, key_positions


@keras.saving.register_keras_serializable(package="keras_attention")
class Causal(Mask):
    """A query sees its own position and what came before it.

    $$ visible(q, k) = [k \\le q] $$

    Example:

    >>> Causal()(1, 4)[0, 0].numpy().tolist()
    [[True, True, True, True]]
    """

    def tile(self, query_positions, key_positions):
        return (key_positions[None, :] <= query_positions[:, None])[None, None]

    def may_see(self, queries, keys):
        return keys[0] <= queries[1]


class Keys(Mask):
    """Padding: hides keys, the same ones from every query and head.

    Args:
        visible: Boolean tensor `(batch, key_length)`, `True` for the keys that may be seen.

    Example:

    >>> (Causal() & Keys(np.array([[True, False]])))(2, 2)[0, 0].numpy().astype(int).tolist()
    [[1, 0], [1, 0]]
    """

    def __init__(self, visible):
        self.visible = visible

    def tile(self, query_positions, key_positions):
        return ops.take(self.visible, key_positions, axis=1)[:, None, None, :]


class Queries(Mask):
    """Padding: the hidden queries see nothing at all.

    Args:
        visible: Boolean tensor `(batch, query_length)`, `True` for the queries that may look.
        key_length: Length of the keys, to whose end the queries are aligned.
    """

    def __init__(self, visible, key_length):
        self.visible = visible
        self.first_position = key_length - ops.shape(visible)[1]

    def tile(self, query_positions, key_positions):
        rows = query_positions - self.first_position
        return ops.take(self.visible, rows, axis=1)[:, None, :, None]


@keras.saving.register_keras_serializable(package="keras_attention")
class Array(Mask):
    """Any booleans at all, given as an array.

    Args:
        visible: Booleans `(query_length, key_length)`, `(batch, query_length, key_length)` or
            `(batch, heads, query_length, key_length)`: a tensor or nested lists.
    """

    def __init__(self, visible):
        visible = as_boolean(visible, "visible", ranks=(2, 3, 4))
        rank = len(visible.shape)
        if rank == 2:
            visible = visible[None, None]
        elif rank == 3:
            visible = visible[:, None]
        self.visible = visible
        self.first_position = ops.shape(visible)[3] - ops.shape(visible)[2]

    def tile(self, query_positions, key_positions):
        rows = ops.take(self.visible, query_positions - self.first_position, axis=2)
        return ops.take(rows, key_positions, axis=3)

    def get_config(self):
        return {"visible": ops.convert_to_numpy(self.visible).tolist()}


class _Composed(Mask):
    def __init__(self, *masks):
        self.masks = [get(mask) for mask in masks]

    def get_config(self):
        return {"masks": [keras.saving.serialize_keras_object(mask) for mask in self.masks]}

    @classmethod
    def from_config(cls, config):
        return cls(*config["masks"])


@keras.saving.register_keras_serializable(package="keras_attention")
class And(_Composed):
    """What both masks let through: `first & second`."""

    def tile(self, query_positions, key_positions):
        first, second = (mask.tile(query_positions, key_positions) for mask in self.masks)
        return ops.logical_and(first, second)

    def may_see(self, queries, keys):
        first, second = (mask.may_see(queries, keys) for mask in self.masks)
        return first & second


@keras.saving.register_keras_serializable(package="keras_attention")
class Or(_Composed):
    """What at least one of the two masks lets through: `first | second`."""

    def tile(self, query_positions, key_positions):
        first, second = (mask.tile(query_positions, key_positions) for mask in self.masks)
        return ops.logical_or(first, second)

    def may_see(self, queries, keys):
        first, second = (mask.may_see(queries, keys) for mask in self.masks)
        return first | second


@keras.saving.register_keras_serializable(package="keras_attention")
class Not(_Composed):
    """What the mask hides: `~mask`."""

    def tile(self, query_positions, key_positions):
        return ops.logical_not(self.masks[0].tile(query_positions, key_positions))


_registry = Registry("mask", Mask, {"causal": Causal})
get = _registry.get
names = _registry.names


def combine(*masks):
    """Returns the conjunction of those masks that are not `None`, or `None` if all are."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


def as_boolean(mask, name, ranks):
    """Returns an array mask as a boolean tensor.

    Args:
        mask: Boolean or integer tensor, `True` or 1 for what may be seen.
        name: The argument it came by, for the error message.
        ranks: The numbers of axes that it may have.

    Raises:
        ValueError: If the mask is made of floats or has another number of axes.
    """
    mask = ops.convert_to_tensor(mask)
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if "float" in dtype:
        raise ValueError(
            f"`{name}` must be boolean, True for what may be seen. Received: dtype {dtype}. "
            f"For 0/1 floats pass `{name} > 0`; for numbers added to the scores (0 and -1e9) pass "
            f"`{name} == 0`."
        )
    if len(mask.shape) not in ranks:
        expected = " or ".join(str(rank) for rank in ranks)
        raise ValueError(
            f"`{name}` must have {expected} axes. Received: shape {tuple(mask.shape)}. Padding of "
            "shape (batch, length) is a query_mask, value_mask or key_mask; an attention_mask has "
            "the shape (query_length, key_length), with a batch and a heads axis in front at will."
        )
    return ops.cast(mask, "bool")
