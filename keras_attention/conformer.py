"""The Conformer block: attention and convolution between two half-step feed-forward networks."""

from typing import Any

import keras

from keras_attention._block import BIASES, Block
from keras_attention._checks import has_bias, plain, require_one_of, require_positive_integers
from keras_attention._layer import as_floats
from keras_attention.convolution import CONVOLUTION_NORMS, ConvolutionModule, require_no_statistics

HALF_STEPS = "feed_forward", "second_feed_forward"


@keras.saving.register_keras_serializable(package="keras_attention")
class ConformerBlock(Block):
    """One layer of a Conformer.

    $$ x_1 = x + \\frac{1}{2} FeedForward_1(Norm(x)), \\quad x_2 = x_1 + Attention(Norm(x_1)) $$

    $$ x_3 = x_2 + Convolution(Norm(x_2)), \\quad
       y = Norm(x_3 + \\frac{1}{2} FeedForward_2(Norm(x_3))) $$

    Paper: Gulati et al. 2020, Conformer: Convolution-augmented Transformer for Speech Recognition,
    equation 1 (https://arxiv.org/abs/2005.08100). With `normalize="post"`, each part is `Norm(x +
    part(x))` and there is no further normalization, as in the Squeezeformer (Kim et al. 2022,
    section 3.1.2, https://arxiv.org/abs/2206.00888). With `normalize="sandwich"`, the output of
    each part is normalized as well before it is halved or added; with `"output"`, the output alone.

    The parts are `feed_forward`, `attention`, `convolution` and `second_feed_forward`, with the
    normalizations `feed_forward_norm`, `attention_norm`, `convolution_input_norm` and
    `second_feed_forward_norm`, and with "sandwich" also `feed_forward_output_norm` and so on; the
    final normalization is `output_norm`. The convolution sees both
    sides of a position, even if the attention mask hides one.

    Args:
        num_heads, hidden, key_dim, normalize, epsilon, dropout, attention_dropout, hidden_dropout,
            activation, score, mask, norm, gated, num_key_value_heads, query_key_norm,
            joint_query_key_norm, soft_cap, normalizer, implementation: As for `EncoderBlock`.
        use_bias: As for `EncoderBlock`; a collection may also contain `"convolution"`.
        kernel_size: Kernel size of the convolution, see `ConvolutionModule`.
        convolution_norm: `"batch"` or `"layer"`, the normalization inside the convolution module.
        position: Position of the attention, as for `MultiHeadAttention`. Defaults to
            `positions.TransformerXL`.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        mask: Boolean `(batch, length)`, `False` for padding; combined with Keras' implicit mask.
            Hidden positions do not affect the outputs at other positions.
        attention_mask: As for `EncoderBlock`; the convolution ignores it.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether to apply dropout and to update the batch normalization.

    Output shape:
        `(batch, length, size)`; with `return_attention_scores` also the weights before dropout,
        float32 `(batch, num_heads, length, length)`.

    Raises:
        ValueError: As for `EncoderBlock` and `ConvolutionModule`.

    Example:

    >>> block = ConformerBlock(num_heads=2, hidden=32, kernel_size=3)
    >>> tuple(block(np.ones((2, 5, 8)), mask=np.ones((2, 5), bool)).shape)
    (2, 5, 8)
    """

    biases = (*BIASES, "convolution")

    def __init__(
        self,
        num_heads: int,
        hidden: int,
        key_dim: int | None = None,
        normalize: str = "pre",
        *,
        kernel_size: int = 31,
        convolution_norm: str = "batch",
        activation: Any = "silu",
        position: Any = "transformer_xl",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            hidden,
            key_dim,
            normalize,
            activation=activation,
            position=position,
            **kwargs,
        )
        require_positive_integers("ConformerBlock", kernel_size=kernel_size)
        require_one_of("ConformerBlock", CONVOLUTION_NORMS, convolution_norm=convolution_norm)
        self.kernel_size = plain(kernel_size)
        self.convolution_norm = convolution_norm

    def build(self, x_shape):
        self._require_sequences(x=x_shape)
        self.size = x_shape[-1]
        with keras.RematScope(mode=None):
            self._build_feed_forward(x_shape)
            self.attention = self._make_attention(
                "attention", x_shape, x_shape, self.score, mask=self.mask, position=self.position
            )
            self._make_norms("attention", x_shape)
            self.convolution = ConvolutionModule(
                self.kernel_size,
                self.activation,
                self.convolution_norm,
                self.epsilon,
                has_bias(self.use_bias, "convolution"),
                dtype=self.dtype_policy,
                name="convolution",
            )
            self.convolution.build(x_shape)
            self._make_norms("convolution_input", x_shape)
            self.second_feed_forward = self._make_feed_forward("second_feed_forward", x_shape)
            self._make_norms("second_feed_forward", x_shape)
            self.output_norm = None
            if self.normalize != "post":
                self.output_norm = self._make_norm("output_norm", x_shape)

    def call(self, x, mask=None, attention_mask=None, return_attention_scores=False, training=None):
        self._require_sequences(x=x.shape)
        mask = self._padding("mask", mask, x)
        x = as_floats(x, self.compute_dtype)
        x = self._half_step("feed_forward", x, training)
        x, weights = self._attend_to_itself(
            x, mask, attention_mask, return_attention_scores, training
        )
        part = "convolution_input"
        added = self.convolution(self._before(part, x), mask=mask, training=training)
        x = self._after(part, x, added, training)
        x = self._half_step("second_feed_forward", x, training)
        x = x if self.output_norm is None else self.output_norm(x)
        return (x, weights) if return_attention_scores else x

    def _half_step(self, part, x, training):
        added = getattr(self, part)(self._before(part, x), training=training)
        return self._after(part, x, added, training)

    def _added(self, part, output):
        added = super()._added(part, output)  # a normalization would undo the factor before it
        return 0.5 * added if part in HALF_STEPS else added

    def rematerialized_call(self, layer_call, *args, **kwargs):
        require_no_statistics(self, self.convolution_norm)
        return super().rematerialized_call(layer_call, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "convolution_norm": self.convolution_norm,
        }
