"""Talking-heads attention: heads mix their scores before the softmax, and weights after it."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._products import matmul
from keras_attention.multi_head import MultiHeadAttention
from keras_attention.normalizers import Normalizer


@keras.saving.register_keras_serializable(package="keras_attention")
class TalkingHeadsAttention(MultiHeadAttention):
    """Multi-head attention whose heads are mixed before and after the softmax.

    $$ w_j = softmax(\\sum_h L_{hj} \\frac{Q_h K_h^T}{\\sqrt{d}}), \\quad
       head_i = (\\sum_j M_{ji} w_j) V_i $$

    A head may thus attend to what a combination of the others finds. `L` and `M` are learned
    matrices of `num_heads` rows and columns, initially the identity, so that a new layer equals
    `MultiHeadAttention`. Like the scores, they are float32 even in mixed precision.

    Paper: Shazeer et al. 2020, Talking-Heads Attention (https://arxiv.org/abs/2003.02436).

    Any score, position, soft cap and normalizer works, each for the heads before `L` or between `L`
    and `M`. Masks hide keys from the `w_j`: an `attention_mask` with separate heads does not hide
    from `head_i` what other heads see. The weights of all pairs are formed, in memory `T²`.

    Args:
        num_heads, key_dim, value_dim, use_bias: As for `MultiHeadAttention`.
        dropout: Fraction of the mixed weights to drop during training.
        implementation: `"auto"` or `"reference"`, the only one that forms the weights.
        **kwargs: All other arguments of `MultiHeadAttention`.

    Call arguments:
        As for `MultiHeadAttention`.

    Output shape:
        As for `MultiHeadAttention`. The weights are the mixed ones, with which values are
        multiplied: they may be negative, and need not add up to 1.

    Raises:
        ValueError: If another implementation is requested, or as for `MultiHeadAttention`.

    Example:

    >>> layer = TalkingHeadsAttention(num_heads=2, key_dim=4)
    >>> x = np.ones((2, 5, 16))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 2, 5, 5))
    >>> layer.weight_mixing.numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool | Collection[str] = True,
        *,
        implementation: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            key_dim,
            value_dim,
            dropout,
            use_bias,
            implementation=implementation,
            **kwargs,
        )
        if implementation not in ("auto", "reference"):
            raise ValueError(
                "TalkingHeadsAttention mixes the weights of its heads, so it must form them: "
                "`implementation` must be 'auto' or 'reference'. "
                f"Received: {implementation!r}."
            )

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        self.score_mixing = self._mixing("score_mixing")
        self.weight_mixing = self._mixing("weight_mixing")

    def _mixing(self, name):
        """Returns a matrix with a row for each head, and a column for each mixture of them."""
        return self.add_weight(
            name=name,
            shape=(self.num_heads, self.num_heads),
            initializer="identity",
            autocast=False,  # float32 even in mixed precision, like the scores
        )

    def choose_implementation(self, query_shape, value_shape, return_attention_scores=False):
        return super().choose_implementation(query_shape, value_shape, True)

    def _attend_heads(self, *arguments):
        normalizer = _Mixed(self.attention.normalizer, self.score_mixing, self.weight_mixing)
        return self.attention.attend_heads(*arguments, normalizer=normalizer)


class _Mixed(Normalizer):
    """A normalizer between two mixings of heads.

    Args:
        normalizer: A `Normalizer`.
        of_scores, of_weights: Matrices with a row for each head and a column for each mixture.
    """

    def __init__(self, normalizer, of_scores, of_weights):
        self.normalizer, self.of_scores, self.of_weights = normalizer, of_scores, of_weights

    def __call__(self, scores, visible=None, training=None):
        weights = self.normalizer(_mixed(self.of_scores, scores), visible, training)
        return _mixed(self.of_weights, weights)


def _mixed(mixing, x):
    """(batch, heads, queries, keys) -> the same shape, with mixtures in place of the heads."""
    batch, heads, queries, keys = shape_of(x)
    pairs = ops.reshape(x, (batch, heads, queries * keys))
    mixtures = matmul(ops.cast(mixing, "float32"), pairs, transpose_a=True)
    return ops.reshape(mixtures, (batch, heads, queries, keys))
