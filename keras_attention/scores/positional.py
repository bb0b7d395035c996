"""Scores that do not compare contents, but depend on positions or on the query only."""

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import require_positive_integers
from keras_attention._initializers import for_each_head
from keras_attention._keras import in_symbolic_scope
from keras_attention.scores.base import MatrixProduct


class OfPositions(MatrixProduct):
    """Base class of scores with a row of weights for each position.

    Args:
        max_length: Number of positions.
        kernel_initializer: Initializer of the weights.
    """

    uses_key = False

    def __init__(self, max_length=512, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        require_positive_integers(f"the score {type(self).__name__}", max_length=max_length)
        self.max_length = max_length
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def require_length(self, length, what="keys"):
        """Raises a `ValueError` if a length is known and exceeds the number of positions."""
        if isinstance(length, int) and length > self.max_length:
            name = type(self).__name__
            raise ValueError(
                f"The score {name} has weights for {self.max_length} positions. Received: {length} "
                f"{what}. Make it with {name}(max_length={length}) or more, or shorten the {what}."
            )

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.require_length(key_shape[-2])

    def add_rows(self, name, size):
        """Creates and returns a weight `(*heads, max_length, size)`."""
        return self.add_weight(
            name=name,
            shape=(*self.heads, self.max_length, size),
            initializer=for_each_head(self.kernel_initializer),
        )

    def rows(self, table, positions, like, what="keys"):
        """Returns the rows of a weight that belong to positions.

        A negative position takes its row from the end. A position beyond the last row is an error
        if the length is known; otherwise its row is NaN instead of a wrong row.

        Args:
            table: A weight created by `add_rows`.
            positions: int32 `(length,)`.
            like: Tensor `(batch, *heads, length, ...)`, for its batch and dtype.
            what: What the positions belong to, for the error message.
        """
        if not in_symbolic_scope():  # where JAX substitutes unknown lengths
            self.require_length(like.shape[-2], what)
        table = ops.cast(table, like.dtype)
        rows = ops.take(table, ops.mod(positions, self.max_length), axis=-2)
        is_known = ops.logical_and(positions >= -self.max_length, positions < self.max_length)
        rows = ops.where(is_known[:, None], rows, ops.cast(float("nan"), rows.dtype))
        return ops.broadcast_to(rows, (shape_of(like)[0], *shape_of(rows)))

    def get_config(self):
        initializer = keras.initializers.serialize(self.kernel_initializer)
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "kernel_initializer": initializer,
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class Location(OfPositions):
    """Location-based score: computed from the query only, whatever the keys at the positions.

    $$ score(q, k_j) = (W q)_j $$

    Paper: Luong et al. 2015, Effective Approaches to Attention-based Neural Machine Translation,
    equation 9 (https://aclanthology.org/D15-1166).

    Time `O(Tq · Tk · d)`, weights `max_length · d` per head.

    Args:
        max_length: Maximum number of keys. `W` has a row for each key position.
        kernel_initializer: Initializer of `W`.

    Raises:
        ValueError: If there are more keys than `max_length`.

    Example:

    >>> score = Location(max_length=4, kernel_initializer="identity")
    >>> score(np.array([[[7.0, 8.0, 9.0]]]), np.ones((1, 4, 5))).numpy().tolist()
    [[[7.0, 8.0, 9.0, 0.0]]]
    """

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.kernel = self.add_rows("kernel", query_shape[-1])

    def prepare_key(self, key, positions):
        return self.rows(self.kernel, positions, key)
