"""Keras' depthwise convolutions, whose kernels have a gradient of 0 for an empty batch.

TensorFlow leaves that gradient undefined, and a device may get no rows in distributed training.
"""

import keras
from keras import ops


class _Depthwise:
    def call(self, x):
        kernel = ops.cast(self.kernel, x.dtype)
        kernel = ops.where(ops.size(x) > 0, kernel, ops.zeros_like(kernel))
        x = ops.depthwise_conv(x, kernel, padding=self.padding, data_format=self.data_format)
        return x + ops.cast(self.bias, x.dtype) if self.use_bias else x


class DepthwiseConv1D(_Depthwise, keras.layers.DepthwiseConv1D):
    pass


class DepthwiseConv2D(_Depthwise, keras.layers.DepthwiseConv2D):
    pass
