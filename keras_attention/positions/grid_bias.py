"""A learned bias for each distance in rows and columns of an image."""

import keras
from keras import ops

from keras_attention._checks import pair_of_integers, plain, require_counts
from keras_attention.positions.base import Position


@keras.saving.register_keras_serializable(package="keras_attention")
class GridBias(Position):
    """Relative position bias of images: a learned bias for each head, row and column distance.

    $$ bias_h(q, k) = b_{h, row_q - row_k, column_q - column_k} $$

    Positions count the patches of the grid row by row. Without a `window`, every distance in the
    grid has its own bias. With one, as in Swin, those within a window of this size have; use it
    with the mask `masks.GridWindows`, since farther patches share the biases at its edge.

    Paper: Liu et al. 2021, Swin Transformer: Hierarchical Vision Transformer using Shifted Windows,
    equation 4 (https://arxiv.org/abs/2103.14030).

    Weights `(2 rows - 1) · (2 columns - 1)` per head.

    Args:
        grid: Rows and columns of the grid, or one number for both.
        window: Rows and columns of a window, or one number for both. Defaults to the whole grid.
        num_prefix_tokens: Number of tokens in front of the grid, such as a class token and
            registers. Pairs with them have no bias.
        embeddings_initializer: Initializer of the biases; by default a truncated normal
            distribution with a standard deviation of 0.02, as in Swin.

    Raises:
        ValueError: If a number is too small or not an integer.

    Example:

    A block of Swin, which is followed by one with the mask `GridWindows((8, 8), 4, shift=2)`:

    >>> from keras_attention import EncoderBlock, masks
    >>> block = EncoderBlock(num_heads=2, hidden=16, normalize="pre", activation="gelu",
    ...     mask=masks.GridWindows((8, 8), window=4), position=GridBias((8, 8), window=4))
    >>> tuple(block(np.ones((1, 64, 6))).shape)
    (1, 64, 6)
    """

    def __init__(
        self,
        grid,
        window=None,
        num_prefix_tokens=0,
        embeddings_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.grid = pair_of_integers("GridBias", "grid", grid)
        self.window = None if window is None else pair_of_integers("GridBias", "window", window)
        require_counts("GridBias", num_prefix_tokens=num_prefix_tokens)
        self.num_prefix_tokens = plain(num_prefix_tokens)
        if embeddings_initializer is None:
            embeddings_initializer = keras.initializers.TruncatedNormal(stddev=0.02)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, heads, size):
        super().build(heads, size)
        rows, columns = self.window or self.grid
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(*self.heads, 2 * rows - 1, 2 * columns - 1),
            initializer=self.embeddings_initializer,
            autocast=False,  # float32 even in mixed precision
        )

    def bias(self, features, query_positions, key_positions):
        rows, columns = self.window or self.grid
        queries, keys = (
            positions - self.num_prefix_tokens for positions in (query_positions, key_positions)
        )
        width = self.grid[1]
        of_rows = _distances(queries // width, keys // width, rows - 1)
        of_columns = _distances(queries % width, keys % width, columns - 1)
        number = (2 * rows - 1) * (2 * columns - 1)
        flat = ops.reshape(self.embeddings, (*self.heads, number))
        bias = ops.take(flat, of_rows * (2 * columns - 1) + of_columns, axis=-1)
        bias = ops.cast(bias, "float32")  # (*heads, query_tile, key_tile)
        if not self.num_prefix_tokens:
            return bias
        is_patch = (queries >= 0)[:, None] & (keys >= 0)[None, :]
        return ops.where(is_patch, bias, 0.0)

    def get_config(self):
        return {
            **super().get_config(),
            "grid": self.grid,
            "window": self.window,
            "num_prefix_tokens": self.num_prefix_tokens,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


def _distances(queries, keys, longest):
    """Returns how far rows or columns of queries are after those of keys, clipped, and shifted to
    start at 0: int32 `(query_tile, key_tile)` between 0 and `2 · longest`.
    """
    after = ops.cast(queries[:, None] - keys[None, :], "int32")
    return ops.clip(after, -longest, longest) + longest
