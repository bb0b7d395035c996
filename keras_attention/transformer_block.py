"""The block of a Transformer around any attention layer."""

import inspect
from collections.abc import Collection
from typing import Any

import keras

from keras_attention._approximation import Approximation
from keras_attention._block import ResidualBlock
from keras_attention._causal_steps import CausalSteps
from keras_attention._registry import serialize

OPTIONS = ("query_mask", "value_mask", "return_attention_scores", "training")  # of its call


def _attends(layer):
    """Whether an object is a layer that can be called as an attention layer."""
    if not isinstance(layer, keras.layers.Layer):
        return False
    try:
        inspect.signature(layer.call).bind("query", "value", **dict.fromkeys(OPTIONS))
    except TypeError:
        return False
    return True


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerBlock(CausalSteps, ResidualBlock):
    """One layer of a Transformer with any attention layer: linear, sparse, local, or your own.

    The output of each part, attention and then feed-forward, is added to its input `x`:

    $$ post: Norm(x + part(x)), \\quad pre: x + part(Norm(x)), \\quad
       sandwich: x + Norm_2(part(Norm_1(x))), \\quad output: x + Norm(part(x)) $$

    With `MultiHeadAttention`, this is an `EncoderBlock`. If the attention has a cache and a causal
    mask, `start` and `step` decode step by step.

    The parts are `attention`, `feed_forward`, `attention_norm` and `feed_forward_norm`; with
    "sandwich", also `attention_output_norm` and `feed_forward_output_norm`. To recompute a block in
    the backward pass instead of keeping its activations in memory, create it inside
    `keras.RematScope()`.

    Paper: Vaswani et al. 2017, Attention Is All You Need, section 3.1
    (https://arxiv.org/abs/1706.03762).

    Args:
        attention: Attention layer whose output has the size of `x`, such as
            `LinearAttention(8, 64)`. It is called with `x` as query and value, and with
            `query_mask`, `value_mask`, `return_attention_scores` and `training`, like every
            attention layer here and `keras.layers.MultiHeadAttention`. For a language model, it
            must be causal.
        hidden: Size of the hidden layer of the feed-forward network.
        normalize: `"post"`, `"pre"`, `"sandwich"` or `"output"`, as for `EncoderBlock`.
        epsilon: Added to the variance by the normalizations.
        dropout: Fraction of the outputs of each part to drop during training.
        hidden_dropout: Fraction of the hidden units of the feed-forward network to drop during
            training.
        activation, gated: Options of the feed-forward network, as for `FeedForward`.
        use_bias: Whether the feed-forward network adds biases, as for `FeedForward`.
        norm: `"layer"`, `"layer_without_bias"` or `"rms"`, as for `EncoderBlock`.
        parallel: Whether both parts have the same input, as for `EncoderBlock`.
        shared_norm: With `parallel`, whether they share a normalization.
        residual_scale: Factor of what each part adds.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        mask: Boolean `(batch, length)`, `False` for padding; combined with Keras' implicit mask.
        attention_mask: As for `EncoderBlock`, for attention layers that support it.
        return_attention_scores: Whether to also return the weights of the attention layer.
        training: Whether to apply dropout.
        global_mask: Boolean `(batch, length)`, as for `LongformerAttention`.

    Output shape:
        `(batch, length, size)`; with `return_attention_scores` also the weights.

    Raises:
        ValueError: If `attention` is not such a layer, its output has another shape than `x`,
            another argument is unknown or out of range, or `x` is not of rank 3.

    Example:

    >>> from keras_attention import LinearAttention
    >>> block = TransformerBlock(LinearAttention(num_heads=2, key_dim=4, causal=True), hidden=32)
    >>> tuple(block(np.ones((2, 50, 8)), mask=np.ones((2, 50), bool)).shape)
    (2, 50, 8)
    """

    def __init__(
        self,
        attention: keras.layers.Layer,
        hidden: int,
        normalize: str = "post",
        epsilon: float = 1e-5,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        activation: Any = "relu",
        use_bias: bool | Collection[str] = True,
        *,
        norm: str = "layer",
        gated: bool = False,
        parallel: bool = False,
        shared_norm: bool = False,
        residual_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        if not _attends(attention):
            raise ValueError(
                "`attention` of TransformerBlock must be an attention layer, such as "
                "LinearAttention(num_heads=8, key_dim=64), that is called with query, value, "
                f"{', '.join(OPTIONS)}. Received: attention={attention!r}. For MultiHeadAttention "
                "by number of heads, use EncoderBlock."
            )
        super().__init__(
            hidden,
            normalize,
            epsilon,
            dropout,
            hidden_dropout,
            activation,
            use_bias,
            norm=norm,
            gated=gated,
            parallel=parallel,
            shared_norm=shared_norm,
            residual_scale=residual_scale,
            **kwargs,
        )
        self.attention = attention

    def build(self, x_shape):
        self._require_sequences(x=x_shape)
        x_shape = tuple(x_shape)
        self.size = x_shape[-1]
        with keras.RematScope(mode=None):
            if not self.attention.built:
                self.attention.build(x_shape, x_shape)
            shape = tuple(self.attention.compute_output_shape(x_shape, x_shape))
            if shape != x_shape:
                raise ValueError(
                    "`attention` of TransformerBlock must return the shape of `x`, since its "
                    f"output is added to it. Received: {type(self.attention).__name__} of output "
                    f"shape {shape}, x of shape {x_shape}."
                )
            self._make_norms("attention", x_shape)
            self._build_feed_forward(x_shape)

    def call(
        self,
        x,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        global_mask=None,
    ):
        options = self._for_attention(global_mask)
        return self._encode(x, mask, attention_mask, return_attention_scores, training, **options)

    def compute_output_spec(
        self,
        x,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        global_mask=None,
    ):
        options = self._for_attention(global_mask)
        if not isinstance(self.attention, Approximation):
            return super().compute_output_spec(
                x, mask, attention_mask, return_attention_scores, training, **options
            )
        # Not traced, for the reason that `Approximation` gives.
        _, weights = self.attention.compute_output_spec(
            x, x, attention_mask=attention_mask, return_attention_scores=True, **options
        )
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        return (output, weights) if return_attention_scores else output

    def _for_attention(self, global_mask):
        """Returns the arguments of the attention layer that only some layers have."""
        if global_mask is None:
            return {}
        if "global_mask" not in inspect.signature(self.attention.call).parameters:
            raise ValueError(
                "Only LongformerAttention takes a `global_mask`. Received: a `global_mask`, and a "
                f"TransformerBlock around {type(self.attention).__name__}. Omit it, or make the "
                "block with LongformerAttention."
            )
        return {"global_mask": global_mask}

    def get_config(self):
        attention = serialize(self.attention)
        return {**super().get_config(), "attention": attention}

    @classmethod
    def from_config(cls, config):
        attention = keras.saving.deserialize_keras_object(config["attention"])
        return super().from_config({**config, "attention": attention})
