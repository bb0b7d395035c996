"""Positions of the patches of an image."""

import keras
import numpy as np
from keras import ops

from keras_attention.positions.sinusoidal import angles_of

CUBIC = -0.75  # the free coefficient of cubic interpolation, as in PyTorch


@keras.saving.register_keras_serializable(package="zoo")
class GridPosition(keras.layers.Layer):
    """Adds a position embedding to each patch, see `interpolated` for another grid.

    Args:
        grid: Rows and columns of the grid that there are positions for.
        position: `"learned"` or `"sinusoidal"`.

    Call arguments:
        x: `(batch, rows, columns, size)`.

    Raises:
        ValueError: If sines and cosines of rows and columns do not fill the size evenly.
    """

    def __init__(self, grid, position="learned", **kwargs):
        super().__init__(**kwargs)
        self.grid, self.position = tuple(grid), position

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
                table = interpolated(table, (rows, columns))
        return ops.cast(ops.cast(x, "float32") + table, self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "grid": self.grid, "position": self.position}


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


def interpolated(table, grid):
    """Returns a table for another grid, by bicubic interpolation as in PyTorch.

    Args:
        table: Tensor `(rows, columns, size)`.
        grid: Its new rows and columns.
    """
    of_rows, of_columns = (
        ops.convert_to_tensor(cubic_weights(new, old), table.dtype)
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
        distance = np.abs(centers - places)
        near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance**2 + 1
        far = ((CUBIC * distance - 5 * CUBIC) * distance + 8 * CUBIC) * distance - 4 * CUBIC
        inside = np.clip(places, 0, old - 1).astype(int)
        np.add.at(weights, (np.arange(new), inside), np.where(distance <= 1, near, far))
    return weights
