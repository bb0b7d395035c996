"""The base class of masks, and the algebra of masks: `&`, `|` and `~`."""

import functools
import inspect
import operator

import keras
from keras import ops

from keras_attention._registry import Part, Registry
from keras_attention.masks import picture


class Mask(Part):
    """Base class of all masks: a rule for pairs (query position, key position).

    `True` means that the query may see the key. A mask is evaluated on tiles, so the whole array is
    never needed: `tile(query_positions, key_positions)`. Keys have positions `0 … Tk - 1`, and
    queries are aligned to the end: query `i` of `Tq` has position `Tk - Tq + i`. With a cache, the
    single query of a step thus has the last position and sees what it saw in the full forward pass.

    Masks compose: `Causal() & Keys(mask)`, `a | b`, `~a`. `mask(Tq, Tk)` returns the whole array,
    and `mask.plot(Tq, Tk)` draws it. A custom mask needs one method, `tile`. If it also implements
    `may_see`, hidden tiles are skipped. If its constructor takes arguments, it needs `get_config`,
    which returns them by name, so that a layer with the mask can be saved.

    Class attributes:
        longest_tile: Length of tiles up to which `may_see` skips many of them, or `None` if any
            length will do.

    Example:

    >>> from keras_attention.masks import Causal
    >>> Causal()(2, 3)[0, 0].numpy().astype(int).tolist()
    [[1, 1, 0], [1, 1, 1]]

    A custom mask, which shows keys at multiples of a distance. `[None, None]` adds the axes of
    batch and heads:

    >>> @keras.saving.register_keras_serializable(package="my_masks")
    ... class Strided(Mask):
    ...     def __init__(self, stride):
    ...         self.stride = stride
    ...     def tile(self, query_positions, key_positions):
    ...         distance = query_positions[:, None] - key_positions[None, :]
    ...         return (distance % self.stride == 0)[None, None]
    ...     def get_config(self):
    ...         return {"stride": self.stride}
    >>> Strided(2)(3, 3)[0, 0].numpy().astype(int).tolist()
    [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    """

    longest_tile = None

    def tile(self, query_positions, key_positions):
        """Returns booleans that broadcast to `(batch, heads, query_tile, key_tile)`, rank 4.

        Args:
            query_positions, key_positions: int32 vectors, not necessarily contiguous.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `tile`.")

    def may_see(self, queries, keys):
        """Whether any query in a range may see any key in a range, so that tiles can be skipped.

        It may be `True` where nothing is visible, but never `False` where something is.

        Args:
            queries, keys: Pairs `(first, last)` of positions, both inclusive: integers, NumPy
                arrays or tensors that broadcast to each other.

        Returns:
            Booleans in the shape that queries and keys broadcast to, or plain `True`. They are
            NumPy arrays if all positions are.
        """
        return True

    def sees_all(self, queries, keys):
        """Whether every query in a range certainly sees every key in a range; needed for `~`.

        It may be `False` where everything is visible, but never `True` where something is hidden.
        Arguments and return value are those of `may_see`.
        """
        return False

    def plot(self, query_length, key_length=None, ax=None):
        """Plots the mask: a row for each query, a column for each key, filled where visible.

        For a mask that differs between examples or heads, the first one is shown.

        Args:
            query_length: Number of queries.
            key_length: Number of keys. Defaults to the number of queries.
            ax: `matplotlib.axes.Axes` to draw into. Defaults to a new figure.

        Returns:
            The `matplotlib.figure.Figure`. It is not displayed, and a new figure is not registered
            with pyplot.

        Raises:
            ValueError: If a length is not a positive integer.
            ImportError: If matplotlib is not installed.
        """
        return picture.draw(self, query_length, key_length, ax)

    def __call__(self, query_length, key_length):
        return self.tile(*positions(query_length, key_length))

    def __and__(self, other):
        return And(self, other)

    def __or__(self, other):
        return Or(self, other)

    def __invert__(self):
        return Not(self)

    def __bool__(self):
        raise TypeError(
            f"The mask {self!r} is neither true nor false. Combine masks with &, | and ~, not with "
            "`and`, `or` and `not`; compare with None to ask whether there is one."
        )

    def __repr__(self):
        parameters = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self._described().items()
            if name not in parameters or parameters[name].default != value
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _described(self):
        """The arguments that `repr` shows: name -> value."""
        try:
            return self.get_config()
        except NotImplementedError:  # a custom mask with arguments that cannot be saved
            return {}


HINT = (
    " Masks with arguments are objects, such as masks.SlidingWindow(left, right). An array is "
    "masks.Array(array) or, in a call, attention_mask=array."
)
registry = Registry("mask", Mask, {}, HINT)  # filled by the package, which imports all masks
get = registry.get


def positions(query_length, key_length, start=None):
    """Returns the positions of queries and keys.

    Args:
        query_length, key_length: Number of queries and keys.
        start: Position of the first query; by default, the last query has the position of the last
            key.
    """
    start = key_length - query_length if start is None else start
    key_positions = ops.arange(key_length, dtype="int32")
    return ops.arange(query_length, dtype="int32") + start, key_positions


def combine(*masks):
    """Returns the conjunction of all masks that are not `None`, or `None` if there are none."""
    masks = [mask for mask in masks if mask is not None]
    return functools.reduce(And, masks) if masks else None


class _Operation(Mask):
    """What `&`, `|` and `~` return: a mask whose `join` combines the answers of other masks."""

    def __init__(self, *masks):
        if not masks:
            raise ValueError(
                f"{type(self).__name__} needs the masks to combine. Received: none. Pass "
                "them, or write first & second, first | second, ~mask."
            )
        self.masks = [get(mask) for mask in masks]
        tiles = [mask.longest_tile for mask in self.masks if mask.longest_tile is not None]
        self.longest_tile = min(tiles, default=None)

    def tile(self, query_positions, key_positions):
        return self._join(mask.tile(query_positions, key_positions) for mask in self.masks)

    def may_see(self, queries, keys):
        return self._join(mask.may_see(queries, keys) for mask in self.masks)

    def sees_all(self, queries, keys):
        return self._join(mask.sees_all(queries, keys) for mask in self.masks)

    def _join(self, answers):
        return functools.reduce(self.join, answers)

    def __repr__(self):
        return f" {self.symbol} ".join(map(self._inside, self.masks))

    def _inside(self, mask):
        """The text of a part, in parentheses where operator precedence requires them."""
        alien = isinstance(mask, And | Or) and type(mask) is not type(self)
        return f"({mask!r})" if alien else repr(mask)

    def get_config(self):
        return {"masks": [keras.saving.serialize_keras_object(mask) for mask in self.masks]}

    @classmethod
    def from_config(cls, config):
        return cls(*config["masks"])


@keras.saving.register_keras_serializable(package="keras_attention")
class And(_Operation):
    """Conjunction of masks, visible where all of them are: `first & second`."""

    join, symbol = operator.and_, "&"


@keras.saving.register_keras_serializable(package="keras_attention")
class Or(_Operation):
    """Disjunction of masks, visible where at least one of them is: `first | second`."""

    join, symbol = operator.or_, "|"


@keras.saving.register_keras_serializable(package="keras_attention")
class Not(_Operation):
    """Negation of a mask: `~mask`. Hidden tiles are skipped if the mask implements `sees_all`."""

    def __init__(self, mask):
        super().__init__(mask)

    def tile(self, query_positions, key_positions):
        return ops.logical_not(self.masks[0].tile(query_positions, key_positions))

    def may_see(self, queries, keys):
        return self.masks[0].sees_all(queries, keys) ^ True

    def sees_all(self, queries, keys):
        return self.masks[0].may_see(queries, keys) ^ True

    def __repr__(self):
        return f"~{self._inside(self.masks[0])}"
