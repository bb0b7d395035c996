"""Learned position embeddings."""

import keras
from keras import ops

from keras_attention._backend import rows_of
from keras_attention._checks import require_positive_integers
from keras_attention.positions.embedding import PositionEmbedding


@keras.saving.register_keras_serializable(package="keras_attention")
class LearnedPosition(PositionEmbedding):
    """A learned vector for each position, up to a maximum length.

    $$ p_t = E_t, \\quad E \\in R^{max\\_length × d} $$

    Paper: Gehring et al. 2017, Convolutional Sequence to Sequence Learning, section 3.1
    (https://arxiv.org/abs/1705.03122).

    Args:
        max_length: Number of positions, `0 … max_length - 1`. Only static lengths are checked
            against it.
        mode: `"add"` or `"concatenate"`.
        size: Size of the concatenated position vectors. Defaults to the size of the embeddings.
        embeddings_initializer: Initializer of the vectors.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        start: Position of the first vector: an integer, a scalar tensor, or int32 `(batch,)`, one
            for each sequence. See `PositionEmbedding`.

    Output shape:
        `(batch, length, size)`; concatenated, `(batch, length, size + position_size)`.

    Raises:
        ValueError: If the mode is unknown, a number is out of range, `x` is not of rank 3, or it
            is longer than `max_length`.

    Example:

    >>> layer = LearnedPosition(max_length=10, mode="concatenate", size=4)
    >>> tuple(layer(np.ones((2, 3, 8)), start=7).shape)
    (2, 3, 12)
    """

    def __init__(
        self, max_length, mode="add", size=None, embeddings_initializer="uniform", **kwargs
    ):
        super().__init__(mode, size, **kwargs)
        require_positive_integers("LearnedPosition", max_length=max_length)
        self.max_length = max_length
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, x_shape):
        super().build(x_shape)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length, self.position_size),
            initializer=self.embeddings_initializer,
            autocast=False,  # otherwise mixed precision rounds the vectors before adding
        )

    def vectors(self, positions):
        # Sequences with different starts take a row several times.
        return ops.cast(rows_of(self.embeddings, positions, training=True), "float32")

    def call(self, x, start=0):
        first = start if isinstance(start, int) else 0
        length = x.shape[1] if isinstance(x.shape[1], int) else 0  # `None`, or a symbol in JAX
        if first < 0 or first + length > self.max_length:
            raise ValueError(
                f"LearnedPosition has vectors for the positions 0 to {self.max_length - 1}. "
                f"Received: x of shape {tuple(x.shape)}, start={start}. Make it with a larger "
                "`max_length`, shorten the sequence, or use SinusoidalPosition, which has no limit."
            )
        return super().call(x, start)

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
