"""The patches of an image, as vectors."""

import keras

from keras_attention import activations
from keras_attention._keras import BatchNormalization


@keras.saving.register_keras_serializable(package="zoo")
class PatchEmbedding(keras.layers.Layer):
    """Splits images into patches, and embeds each as a vector.

    Args:
        size: Size of a vector.
        patch_size: Rows and columns of a patch.
        stem: Channels of the convolutions before, see `zoo.models.vit.ViTConfig`.
        activation: Activation of these.

    Call arguments:
        images: `(batch, rows, columns, channels)`.

    Output shape:
        `(batch, rows / patch_size, columns / patch_size, size)`.
    """

    def __init__(self, size, patch_size, stem=(), activation="gelu", **kwargs):
        super().__init__(**kwargs)
        self.size, self.patch_size, self.stem = size, patch_size, tuple(stem)
        self.activation = activations.get(activation)

    def build(self, images_shape):
        dtype, shape, left = self.dtype_policy, images_shape, self.patch_size
        self.convolutions, self.norms = [], []
        for number, channels in enumerate(self.stem):
            halves = left > 2 ** (len(self.stem) - number - 1)
            left = left // 2 if halves else left
            convolution = keras.layers.Conv2D(
                channels,
                3,
                2 if halves else 1,
                "same",
                data_format="channels_last",
                use_bias=False,
                dtype=dtype,
            )
            norm = BatchNormalization(epsilon=1e-5, momentum=0.9, dtype=dtype)
            convolution.build(shape)
            shape = convolution.compute_output_shape(shape)
            norm.build(shape)
            self.convolutions.append(convolution)
            self.norms.append(norm)
        self.cut = keras.layers.Conv2D(
            self.size, left, left, data_format="channels_last", dtype=dtype, name="cut"
        )
        self.cut.build(shape)

    def call(self, images, training=None):
        x = images
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = self.activation(norm(convolution(x), training=training))
        return self.cut(x)

    def get_config(self):
        return {
            **super().get_config(),
            "size": self.size,
            "patch_size": self.patch_size,
            "stem": self.stem,
            "activation": activations.serialize(self.activation),
        }
