"""Positions of the patches of an image."""

import keras
import numpy as np
from keras import ops

from keras_attention.positions.sinusoidal import angles_of

# The free coefficient of cubic interpolation, as in PyTorch, without and with antialiasing.
CUBIC, SMOOTH_CUBIC = -0.75, -0.5


@keras.saving.register_keras_serializable(package="zoo")
class GridPosition(keras.layers.Layer):
    """Adds a position embedding to each patch, see `interpolated` for another grid.

    Args:
        grid: Rows and columns of the grid that there are positions for.
        position: `"learned"` or `"sinusoidal"`.
        antialias: Whether `interpolated` filters what a coarser grid cannot represent.

    Call arguments:
        x: `(batch, rows, columns, size)`.

    Raises:
        ValueError: If sines and cosines of rows and columns do not fill the size evenly.
    """

    def __init__(self, grid, position="learned", antialias=False, **kwargs):
        super().__init__(**kwargs)
        self.grid, self.position, self.antialias = tuple(grid), position, antialias

    def build(self, x_shape):
        size = x_shape[-1]
        if self.position == "learned":
            self.table = self.add_weight(
                name="table",
                shape=(*self.grid, size),
                initializer=keras.initializers.TruncatedNormal(stddev=0.02),
                autocast=False,  # else mixed precision would round the vectors before the sum
            )
        elif size % 4:
            raise ValueError(
                "Sinusoidal positions of images need a size that is a multiple of 4. Received: "
                f"size={size}."
            )

    def call(self, x):
        rows, columns, size = x.shape[1:]
        if self.position == "sinusoidal":
            table = sinusoids_of_grid(rows, columns, size)
        else:
            table = ops.cast(self.table, "float32")
            if (rows, columns) != self.grid:
                table = interpolated(table, (rows, columns), self.antialias)
        return ops.cast(ops.cast(x, "float32") + table, self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "grid": self.grid,
            "position": self.position,
            "antialias": self.antialias,
        }


def sinusoids_of_grid(rows, columns, size):
    """Returns float32 `(rows, columns, size)`: sines and cosines of the row, then of the column.

    Example:

    >>> sinusoids_of_grid(1, 2, 4).numpy().round(2).tolist()
    [[[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.8399999737739563, 0.5400000214576721]]]
    """

    def of_line(length):
        angles = angles_of(ops.arange(length), size // 2, 10000)
        return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)

    shape = (rows, columns, size // 2)
    of_rows = ops.broadcast_to(of_line(rows)[:, None], shape)
    return ops.concatenate([of_rows, ops.broadcast_to(of_line(columns)[None], shape)], axis=-1)


def interpolated(table, grid, antialias=False):
    """Returns a table for another grid, by bicubic interpolation as in PyTorch.

    Args:
        table: Tensor `(rows, columns, size)`.
        grid: Its new rows and columns.
        antialias: Whether to filter what a coarser grid cannot represent.
    """
    weights = smooth_weights if antialias else cubic_weights
    of_rows, of_columns = (
        ops.convert_to_tensor(weights(new, old), table.dtype)
        for new, old in zip(grid, table.shape[:2], strict=True)
    )
    return ops.einsum("ri,cj,ijd->rcd", of_rows, of_columns, table)


def cubic_weights(new, old):
    """Returns the shares of `old` points of a line in `new` ones, float64 `(new, old)` in NumPy.

    Points beyond an end count as the last one (Keys 1981, Cubic Convolution Interpolation for
    Digital Image Processing, equation 4).

    Example:

    >>> cubic_weights(1, 4).tolist()
    [[-0.09375, 0.59375, 0.59375, -0.09375]]
    """
    weights = np.zeros((new, old))
    centers = (np.arange(new) + 0.5) * old / new - 0.5
    for offset in range(-1, 3):
        places = np.floor(centers) + offset
        inside = np.clip(places, 0, old - 1).astype(int)
        np.add.at(weights, (np.arange(new), inside), _cubic(np.abs(centers - places), CUBIC))
    return weights


def smooth_weights(new, old):
    """Like `cubic_weights`, but each of fewer points is a mean of all that are near, and points
    beyond an end do not count.

    Example:

    >>> smooth_weights(1, 4).round(4).tolist()
    [[0.2151, 0.2849, 0.2849, 0.2151]]
    """
    scale = old / new
    centers = (np.arange(new)[:, None] + 0.5) * scale - 0.5
    distances = np.abs(np.arange(old) - centers) / max(scale, 1.0)
    weights = np.where(distances < 2, _cubic(distances, SMOOTH_CUBIC), 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _cubic(distance, a):
    """Returns the share of a point at a distance of up to 2 steps."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, far)
