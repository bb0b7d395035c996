"""Blocks of a Vision Transformer: with scaled outputs, and with rotary positions."""

import keras
from keras import ops

from keras_attention import EncoderBlock


@keras.saving.register_keras_serializable(package="zoo")
class ScaledBlock(EncoderBlock):
    """A block that multiplies the output of each part by a learned vector before adding it.

    Args:
        layer_scale: Initial value of these vectors, or `None` for none.
        **kwargs: As for `EncoderBlock`.
    """

    def __init__(self, *args, layer_scale, **kwargs):
        super().__init__(*args, **kwargs)
        self.layer_scale = layer_scale

    def build(self, x_shape):
        super().build(x_shape)
        if self.layer_scale is None:
            return
        for part in ("attention", "feed_forward"):
            scale = self.add_weight(
                name=f"{part}_scale",
                shape=(self.size,),
                initializer=keras.initializers.Constant(self.layer_scale),
            )
            setattr(self, f"{part}_scale", scale)

    def _added(self, part, output):
        added = super()._added(part, output)
        if self.layer_scale is None:
            return added
        return added * ops.cast(getattr(self, f"{part}_scale"), added.dtype)

    def get_config(self):
        return {**super().get_config(), "layer_scale": self.layer_scale}


@keras.saving.register_keras_serializable(package="zoo")
class RotaryBlock(ScaledBlock):
    """A block with rotary positions, for images of any size.

    Args:
        position: A `GridRotary`, which blocks may share.
        **kwargs: As for `ScaledBlock`.

    Call arguments:
        grid: Rows and columns of patches.
        Others: As for `EncoderBlock`.
    """

    def call(
        self,
        x,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        grid=None,
    ):
        self.position.grid = grid  # here, as blocks may be recomputed after one of another image
        return super().call(x, mask, attention_mask, return_attention_scores, training)
