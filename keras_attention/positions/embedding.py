"""The base class of position embeddings: a vector for each position, added or concatenated."""

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import agree, require_one_of, require_positive_integers_or_none
from keras_attention._layer import as_floats

MODES = ("add", "concatenate")


@keras.saving.register_keras_serializable(package="keras_attention")
class PositionEmbedding(keras.layers.Layer):
    """Base class of the layers that encode positions in embeddings.

    $$ mode = add: y_t = x_t + p_t, \\quad mode = concatenate: y_t = [x_t; p_t] $$

    A new layer implements `vectors(positions)`; `self.position_size` is the size of the vectors.
    They are added in float32 and rounded once, to the dtype of the embeddings.

    Args:
        mode: `"add"` or `"concatenate"`.
        size: Size of the concatenated position vectors. Defaults to the size of the embeddings,
            which is required for `mode="add"`.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        start: Position of the first vector, an integer or a scalar tensor: in step-by-step
            decoding, the number of previous tokens. Or int32 `(batch,)`, one for each sequence:
            negative positions are padding and count as position 0.

    Output shape:
        `(batch, length, size)`; concatenated, `(batch, length, size + position_size)`.
    """

    def __init__(self, mode="add", size=None, **kwargs):
        super().__init__(**kwargs)
        owner = type(self).__name__
        require_one_of(owner, MODES, mode=mode)
        if size is not None and mode == "add":
            raise ValueError(
                f"`size` of {owner} is for mode='concatenate'; added vectors have the size of the "
                f"embeddings. Received: mode='add', size={size!r}. Omit `size`."
            )
        require_positive_integers_or_none(owner, size=size)
        self.supports_masking = True
        self.mode = mode
        self.size = size

    def build(self, x_shape):
        self._require_sequences(x_shape)
        self.position_size = self.size or x_shape[-1]

    def vectors(self, positions):
        """Returns the vectors of the given positions.

        Args:
            positions: int32 `(length,)`.

        Returns:
            float32 `(length, position_size)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `vectors(positions)`.")

    def call(self, x, start=0):
        self._require_sequences(x.shape)
        if self.mode == "add" and not agree(x.shape[-1:], (self.position_size,)):
            raise ValueError(
                f"The layer {self.name!r} ({type(self).__name__}) is built for embeddings of size "
                f"{self.position_size}. Received: shape {tuple(x.shape)}. Make a new layer for "
                "another size."
            )
        x = as_floats(x, self.compute_dtype)
        start = ops.convert_to_tensor(start)
        dtype = keras.backend.standardize_dtype(start.dtype)
        if len(start.shape) > 1 or not dtype.startswith(("int", "uint")):
            raise ValueError(
                f"`start` of {type(self).__name__} must be one integer, the position of the first "
                "vector of every sequence, or one for each sequence (batch,). Received: shape "
                f"{tuple(start.shape)}, {dtype}."
            )
        vectors = self._vectors_from(ops.cast(start, "int32"), shape_of(x)[1])
        if self.mode == "add":
            wide = keras.backend.result_type(x.dtype, "float32")
            return ops.cast(ops.cast(x, wide) + ops.cast(vectors, wide), x.dtype)
        shape = (*shape_of(x)[:2], self.position_size)
        return ops.concatenate([x, ops.broadcast_to(ops.cast(vectors, x.dtype), shape)], axis=-1)

    def compute_output_shape(self, x_shape):
        *front, size = x_shape
        return (*front, size if self.mode == "add" else size + (self.size or size))

    def _vectors_from(self, start, length):
        """Returns vectors that broadcast to `(batch, length, position_size)`."""
        steps = ops.arange(length, dtype="int32")
        if len(start.shape) == 0:
            return self.vectors(start + steps)[None]
        positions = ops.maximum(start[:, None] + steps, 0)  # (batch, length)
        vectors = self.vectors(ops.reshape(positions, (-1,)))
        return ops.reshape(vectors, (-1, length, self.position_size))

    def _require_sequences(self, shape):
        if len(shape) != 3:
            raise ValueError(
                f"{type(self).__name__} needs embeddings of shape (batch, length, size). Received: "
                f"shape {tuple(shape)}. Add a length axis to a single step with x[:, None, :]."
            )

    def get_config(self):
        return {**super().get_config(), "mode": self.mode, "size": self.size}
