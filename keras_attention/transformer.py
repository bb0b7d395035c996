"""The blocks of a Transformer: attention and a feed-forward network, each added to its input."""

import keras

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._block import Block
from keras_attention._causal_steps import CausalSteps
from keras_attention._layer import require_built


@keras.saving.register_keras_serializable(package="keras_attention")
class EncoderBlock(CausalSteps, Block):
    """One layer of a Transformer encoder or, with `mask="causal"`, of a language model.

    The output of each part, attention and then feed-forward, is added to its input `x`:

    $$ post: Norm(x + part(x)), \\quad pre: x + part(Norm(x)), \\quad
       sandwich: x + Norm_2(part(Norm_1(x))), \\quad output: x + Norm(part(x)) $$

    With `parallel=True`, both parts have the same input, the one of the block:

    $$ x + Attention(Norm_1(x)) + FeedForward(Norm_2(x)) $$

    and with `shared_norm=True` also the same normalization, `Norm_1 = Norm_2`.

    Paper: Vaswani et al. 2017, section 3.1, "post" (https://arxiv.org/abs/1706.03762); Xiong et
    al. 2020, On Layer Normalization in the Transformer Architecture, "pre"
    (https://arxiv.org/abs/2002.04745); Ding et al. 2021, CogView, section 2.4, "sandwich"
    (https://arxiv.org/abs/2105.13290), as in Gemma 2 and 3; Liu et al. 2021, Swin Transformer V2,
    section 3.2, "output" (https://arxiv.org/abs/2111.09883), as in OLMo 2; Black et al. 2022,
    GPT-NeoX-20B, section 2.1, parallel (https://arxiv.org/abs/2204.06745); Chowdhery et al. 2022,
    PaLM, section 2, parallel with a shared normalization (https://arxiv.org/abs/2204.02311), as in
    GPT-J and Phi-2. Unless with "post", add one more normalization after the last block.

    The parts are `attention`, `feed_forward`, `attention_norm` and `feed_forward_norm`; with
    "sandwich", also `attention_output_norm` and `feed_forward_output_norm`. To recompute a block in
    the backward pass instead of keeping its activations in memory, create it inside
    `keras.RematScope()`.

    Args:
        num_heads: Number of heads.
        hidden: Size of the hidden layer of the feed-forward network.
        key_dim: Size of one head. Defaults to the size of `x` divided by the number of heads.
        normalize: `"post"`, `"pre"`, `"sandwich"` or `"output"`, the place of the normalizations.
        epsilon: Added to the variance by the normalizations.
        dropout: Fraction of the outputs of each part to drop during training.
        attention_dropout: Fraction of the attention weights to drop during training.
        hidden_dropout: Fraction of the hidden units of the feed-forward network to drop during
            training.
        activation, gated: Options of the feed-forward network, as for `FeedForward`.
        use_bias: Whether projections and dense layers add a bias: `True`, `False`, or a collection
            of the parts that do: `"attention"` (all its projections), `"query"`, `"key"`,
            `"value"`, `"output"`, `"feed_forward"` (all its layers), `"inner"`, `"gate"` and
            `"outer"`.
        score, mask, position, num_key_value_heads, query_key_norm, joint_query_key_norm, soft_cap,
            normalizer, implementation: Options of the attention, as for `MultiHeadAttention`.
        norm: `"layer"`, `"layer_without_bias"` or `"rms"` (Zhang and Sennrich 2019,
            https://arxiv.org/abs/1910.07467).
        parallel: Whether attention and feed-forward network have the same input. It needs
            `normalize="pre"` or `"sandwich"`.
        shared_norm: Whether they also share the normalization of that input. It needs `parallel`.
        residual_scale: Factor of what each part adds to its input, as in Granite.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        mask: Boolean `(batch, length)`, `False` for padding; combined with Keras' implicit mask.
        attention_mask: Boolean `(length, length)`, optionally with leading axes, as for
            `Attention`: such as `masks.Document(ids)(length, length)` for packed documents.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether to apply dropout.

    Output shape:
        `(batch, length, size)`; with `return_attention_scores` also the weights before dropout,
        float32 `(batch, num_heads, length, length)`.

    Raises:
        ValueError: If an argument is unknown or out of range, `num_heads` does not divide the size
            and there is no `key_dim`, `parallel` goes with another `normalize` or `shared_norm`
            without it, or `x` is not of rank 3.

    Example:

    >>> block = EncoderBlock(num_heads=2, hidden=32)
    >>> tuple(block(np.ones((2, 5, 8)), mask=np.ones((2, 5), bool)).shape)
    (2, 5, 8)

    A block as in Llama 3:

    >>> from keras_attention import positions
    >>> block = EncoderBlock(num_heads=4, hidden=32, normalize="pre", norm="rms", gated=True,
    ...     activation="silu", use_bias=False, num_key_value_heads=2, mask="causal",
    ...     position=positions.Rotary(500_000, pairs="halves"))
    >>> tuple(block(np.ones((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def build(self, x_shape):
        self._require_sequences(x=x_shape)
        self.size = x_shape[-1]
        with keras.RematScope(mode=None):
            self.attention = self._make_attention(
                "attention", x_shape, x_shape, self.score, mask=self.mask, position=self.position
            )
            self._make_norms("attention", x_shape)
            self._build_feed_forward(x_shape)


@keras.saving.register_keras_serializable(package="keras_attention")
class DecoderBlock(Block):
    """One layer of a Transformer decoder, with causal self-attention and cross-attention.

    The parts are causal self-attention, cross-attention to `encoded`, and feed-forward. The output
    of each is added to its input and normalized as in `EncoderBlock`:

    $$ post: Norm(x + part(x)), \\quad pre: x + part(Norm(x)), \\quad
       sandwich: x + Norm_2(part(Norm_1(x))), \\quad output: x + Norm(part(x)) $$

    Paper: as for `EncoderBlock`.

    The parts are `self_attention`, `cross_attention`, `feed_forward`, and a norm for each of them,
    such as `self_attention_norm`, with "sandwich" also for its output, such as
    `self_attention_output_norm`.

    Args:
        mask: An additional mask for self-attention, combined with the causal one.
        position: Position of self-attention; cross-attention has none.
        num_heads, hidden, key_dim, normalize, epsilon, dropout, attention_dropout,
            hidden_dropout, activation, use_bias, score, norm, gated, num_key_value_heads,
            query_key_norm, joint_query_key_norm, soft_cap, normalizer, implementation,
            residual_scale: As for `EncoderBlock`. Each of the two attentions has its own score.
        parallel, shared_norm: Must be `False`: they are for `EncoderBlock`.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        encoded: Tensor `(batch, encoded_length, encoded_size)`.
        mask: Boolean `(batch, length)`, `False` for padding of `x`.
        encoded_mask: Boolean `(batch, encoded_length)`, `False` for padding of `encoded`. Both
            masks are combined with Keras' implicit masks.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether to apply dropout.

    Output shape:
        `(batch, length, size)`; with `return_attention_scores` also the weights before dropout of
        self-attention, `(batch, num_heads, length, length)`, and of cross-attention,
        `(batch, num_heads, length, encoded_length)`, both float32.

    Raises:
        ValueError: As for `EncoderBlock`.

    Example:

    >>> block = DecoderBlock(num_heads=2, hidden=32)
    >>> output, self_weights, cross_weights = block(
    ...     np.ones((2, 3, 8)), np.ones((2, 5, 6)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(self_weights.shape), tuple(cross_weights.shape)
    ((2, 3, 8), (2, 2, 3, 3), (2, 2, 3, 5))
    """

    def build(self, x_shape, encoded_shape):
        self._require_sequences(x=x_shape, encoded=encoded_shape)
        self.size = x_shape[-1]
        with keras.RematScope(mode=None):
            causal = masks.combine(masks.Causal(), self.mask)
            self.self_attention = self._make_attention(
                "self_attention", x_shape, x_shape, self.score, mask=causal, position=self.position
            )
            self._make_norms("self_attention", x_shape)
            self.cross_attention = self._make_attention(
                "cross_attention", x_shape, encoded_shape, self._another(self.score)
            )
            self._make_norms("cross_attention", x_shape)
            self._build_feed_forward(x_shape)

    def call(
        self,
        x,
        encoded,
        mask=None,
        encoded_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        self._require_sequences(x=x.shape, encoded=encoded.shape)
        mask = self._padding("mask", mask, x)
        encoded_mask = self._padding("encoded_mask", encoded_mask, encoded)
        flags = return_attention_scores, training
        x, self_weights = self._attend("self_attention", x, None, mask, mask, *flags)
        x, cross_weights = self._attend("cross_attention", x, encoded, mask, encoded_mask, *flags)
        x = self._feed_forward(x, training, x)
        return (x, self_weights, cross_weights) if return_attention_scores else x

    def compute_output_shape(self, x_shape, encoded_shape=None):
        """Returns the shape of the output, without that of the weights: the shape of `x`."""
        return super().compute_output_shape(x_shape)

    def start(self, encoded, max_length, encoded_mask=None):
        """Returns an empty cache for `step`, and the memory with the prepared keys of `encoded`.

        Args:
            encoded, encoded_mask: As in a call.
            max_length: Maximum number of positions of `x`.

        Returns:
            `(cache, memory)`. A step only changes the cache, a `Memory` as of `EncoderBlock.start`.
        """
        require_built(self, "x_shape, encoded_shape")
        cache = self._room(self.self_attention, shape_of(encoded)[0], max_length, None)
        return cache, self.cross_attention.prepare(encoded, value_mask=encoded_mask)

    def step(self, x, cache, memory, start, return_attention_scores=False):
        """Processes the next positions like `call`, with the previous ones in the cache.

        Args:
            x: Tensor `(batch, length, size)`: one position, or several at once. Positions that its
                implicit Keras mask hides stay hidden, also in the next block.
            cache: What `start` or the previous step returned.
            memory: What `start` returned. If it has fewer rows than `x`, each row is shared by the
                same number of adjacent rows of `x`, such as the beams of one source.
            start: Position of the first of them, an integer or a scalar tensor.
            return_attention_scores: Whether to also return the attention weights.

        Returns:
            `(x, cache)`, and if requested the weights of self-attention `(batch, num_heads,
            length, max_length)` and of cross-attention `(batch, num_heads, length,
            encoded_length)`.

        Raises:
            ValueError: If the cache has no room for these positions. Only a `start` that is an
                integer can be checked.
        """
        options = start, return_attention_scores
        attended, cache, self_weights = self._attend_to_cache("self_attention", x, cache, *options)
        attended, cross_weights = self._attend_to_memory(
            "cross_attention", attended, memory, *options
        )
        x = self._end_step(attended, x)
        return (x, cache, self_weights, cross_weights) if return_attention_scores else (x, cache)
