"""Differential attention: the difference of two maps of weights, which cancels their noise."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import require_fractions
from keras_attention.compute.tiles import visible_pairs
from keras_attention.masks import Mask
from keras_attention.multi_head import MultiHeadAttention

EPSILON = 1e-5  # of the normalization, as in the authors' code
VECTORS = ("query_1", "key_1", "query_2", "key_2")


@keras.saving.register_keras_serializable(package="keras_attention")
class DifferentialAttention(MultiHeadAttention):
    """Multi-head attention by the difference of two maps of weights.

    $$ head_h = (1 - λ_0) \\, RMSNorm((softmax(\\frac{Q_{1h} K_{1h}^T}{\\sqrt{d}}) -
       λ \\, softmax(\\frac{Q_{2h} K_{2h}^T}{\\sqrt{d}})) V_h), \\quad
       λ = \\exp(λ_{q1}^T λ_{k1}) - \\exp(λ_{q2}^T λ_{k2}) + λ_0 $$

    What both maps attend to cancels, so that weights on irrelevant keys become small. All heads
    share `λ`, which is learned through four vectors of size `d`. The normalization is that of each
    head by itself; it has no scale, which `W^O` contains.

    Paper: Ye et al. 2024, Differential Transformer (https://arxiv.org/abs/2410.05258).

    Each head has two queries and two keys, but one value. Score, position and normalizer see the
    maps as `2 · num_heads` heads: two maps of a head have separate weights of a score and slopes of
    ALiBi. Masks and the gate belong to the head.

    Args:
        num_heads: Number of heads. The paper has half as many as a `MultiHeadAttention` with the
            same `key_dim`, so that the number of weights stays the same.
        key_dim: `d`, the size of each of the two queries and keys of a head.
        value_dim: Size of the values of one head. Defaults to `2 · key_dim`, as in the paper.
        dropout: Fraction of the weights to drop during training, from each map separately.
        use_bias: As for `MultiHeadAttention`.
        lambda_init: `λ_0`, at least 0 and below 1. The paper has `0.8 - 0.6 · exp(-0.3 · (l - 1))`
            in layer `l = 1, 2, …`; 0.8 in all layers was about as good.
        **kwargs: All other arguments of `MultiHeadAttention`. The `num_key_value_heads` are those
            of the values, with two keys for each.

    Call arguments:
        As for `MultiHeadAttention`.

    Output shape:
        As for `MultiHeadAttention`. The weights are the differences, which may be negative and have
        the sum `1 - λ` with softmax.

    Raises:
        ValueError: If `lambda_init` is out of range, or as for `MultiHeadAttention`.

    Example:

    >>> layer = DifferentialAttention(num_heads=2, key_dim=4, lambda_init=0.2)
    >>> x = np.ones((2, 5, 16))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 2, 5, 5))
    """

    maps = 2

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool | Collection[str] = True,
        *,
        lambda_init: float = 0.8,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, dropout, use_bias, **kwargs)
        require_fractions("DifferentialAttention", lambda_init=lambda_init)
        if value_dim is None:
            self.value_dim = 2 * self.key_dim
        self.lambda_init = lambda_init

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        self.lambdas = [
            self.add_weight(
                name=f"lambda_{name}",
                shape=(self.key_dim,),
                initializer=keras.initializers.RandomNormal(stddev=0.1),
                autocast=False,  # float32 even in mixed precision
            )
            for name in VECTORS
        ]

    def _attend_heads(self, *arguments):
        context, weights = self.attention.attend_heads(*arguments, fit_mask=self._of_both_maps)
        factor = self._lambda()
        context = self._difference(ops.cast(context, "float32"), factor)
        context = (1.0 - self.lambda_init) * ops.rms_normalization(context, epsilon=EPSILON)
        return context, None if weights is None else self._difference(weights, factor)

    def _lambda(self):
        query_1, key_1, query_2, key_2 = (ops.cast(each, "float32") for each in self.lambdas)
        first, second = ops.exp(ops.sum(query_1 * key_1)), ops.exp(ops.sum(query_2 * key_2))
        return first - second + self.lambda_init

    def _difference(self, x, factor):
        """(batch, 2 · num_heads, length, size) -> (batch, num_heads, length, size)."""
        batch, _, length, size = shape_of(x)
        groups = self.num_key_value_heads
        # Heads that share a key are adjacent: (batch, groups, maps, heads of a group, length, size)
        x = ops.reshape(x, (batch, groups, 2, self.num_heads // groups, length, size))
        x = x[:, :, 0] - factor * x[:, :, 1]
        return ops.reshape(x, (batch, self.num_heads, length, size))

    def _of_both_maps(self, mask):
        return OfBothMaps(mask, self.num_heads, self.num_key_value_heads)

    def get_config(self):
        return {**super().get_config(), "lambda_init": self.lambda_init}


class OfBothMaps(Mask):
    """A mask of heads, repeated for the two maps of each head.

    Args:
        mask: A `Mask`.
        num_heads, num_key_value_heads: As for the layer.
    """

    def __init__(self, mask, num_heads, num_key_value_heads):
        self.mask, self.num_heads, self.groups = mask, num_heads, num_key_value_heads
        self.longest_tile = mask.longest_tile
        self.may_see = mask.may_see

    def tile(self, query_positions, key_positions):
        visible = visible_pairs(self.mask, (query_positions, key_positions), (None, self.num_heads))
        batch, heads, *pairs = shape_of(visible)
        if heads == 1:
            return visible
        visible = ops.reshape(visible, (batch, self.groups, heads // self.groups, *pairs))
        visible = ops.concatenate([visible, visible], axis=2)
        return ops.reshape(visible, (batch, 2 * heads, *pairs))  # in the order of the heads
