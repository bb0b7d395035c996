"""The short causal convolution in front of queries, keys and values."""

import keras
from keras import ops


class ShortConvolution(keras.layers.Layer):
    """Convolves each channel with the positions before it, then applies SiLU, both in float32.

    Args:
        kernel_size: Number of positions, including the one itself.
    """

    def __init__(self, kernel_size, **kwargs):
        super().__init__(**kwargs)
        self.kernel_size = kernel_size

    def build(self, x_shape):
        limit = self.kernel_size**-0.5
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.kernel_size, x_shape[-1]),
            initializer=keras.initializers.RandomUniform(-limit, limit),
        )

    def call(self, x, earlier):
        """Returns the convolved inputs, and the last inputs for the next call.

        Args:
            x: Tensor `(batch, length, channels)`.
            earlier: The inputs before, `(batch, kernel_size - 1, channels)`; zeros if there are
                none.
        """
        before = self.kernel_size - 1
        x = ops.concatenate([ops.cast(earlier, x.dtype), x], axis=1)
        recent = x[:, -before:] if before else earlier
        kernel, x = ops.cast(self.kernel, "float32"), ops.cast(x, "float32")
        # Slices from the start to the end: their ends need no length, which may be unknown.
        shifted = [x[:, place : place - before or None] for place in range(self.kernel_size)]
        total = sum(part * kernel[place] for place, part in enumerate(shifted))
        return ops.silu(total), recent
