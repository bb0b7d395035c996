"""Keras' dense layer with a small graph."""

import keras
from keras import ops

from keras_attention._products import matmul, project


class Dense(keras.layers.Dense):
    """`keras.layers.Dense`, whose product is one of matrices.

    Keras' own multiplies sequences by `tf.tensordot`. For sizes that TensorFlow does not know that
    takes 26 operations, more than half of all in the graph of a Transformer block.
    """

    @property
    def kernel(self):
        """The kernel, to which the update of LoRA is added in the precision of the weights.

        Keras rounds the sum to the precision of the computation, and saves it like that.
        """
        if not self.lora_enabled or self.quantization_mode is not None:
            return super().kernel
        update = self._of_update(matmul(self.lora_kernel_a, self.lora_kernel_b))
        return ops.cast(ops.add(self._kernel, update), self.variable_dtype)

    def call(self, inputs, training=None):
        if self.lora_enabled:
            # To add the update to the kernel first, as Keras does, takes most of the time of a step
            # of decoding, and in half precision it loses updates much smaller than the kernel.
            x = project(inputs, self._kernel, self.bias)
            update = project(project(inputs, self.lora_kernel_a), self.lora_kernel_b)
            x = ops.add(x, self._of_update(update))
        else:
            x = project(inputs, self.kernel, self.bias)
        return x if self.activation is None else self.activation(x)

    def _of_update(self, product):
        """Scales a product with the factors of LoRA."""
        scale = self.lora_alpha / self.lora_rank
        return product if scale == 1 else ops.multiply(scale, product)

    def load_own_variables(self, store):
        super().load_own_variables(store)
        if self.lora_enabled:
            # Keras makes both factors of the update 0, so that neither has a gradient again.
            first = self.lora_kernel_a
            first.assign(keras.initializers.HeUniform()(first.shape, first.dtype))

    def quantize(self, mode=None, type_check=True, config=None):
        super().quantize(mode, type_check=False, config=config)  # Keras checks for its own class
