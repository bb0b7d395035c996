"""Keras' two layers without projections."""

import keras
from keras import ops

from keras_attention import attention, masks
from keras_attention._axes import AttendedAxes
from keras_attention._checks import agree
from keras_attention._products import matmul
from keras_attention.drop_in.from_start import from_start
from keras_attention.scores import Score

MASKS = ("query_mask", "value_mask", "key_mask")


@keras.saving.register_keras_serializable(package="keras_attention.drop_in")
class Attention(keras.layers.Layer):
    """`keras.layers.Attention`: dot-product or additive scores without projections.

    $$ score(q, k) = s \\, q^T k, \\quad score(q, k) = c \\sum_i \\tanh(s (q_i + k_i)) $$

    Paper: Luong et al. 2015 (https://aclanthology.org/D15-1166).

    Args:
        use_scale: Whether `s` is a weight; otherwise it is 1.
        score_mode: `"dot"`, or `"concat"` for the second equation, whose `c` is a weight.
        dropout: Fraction of the weights to drop during training.
        seed: Integer seed of the dropout.

    Call arguments:
        inputs: List `[query, value]` or `[query, value, key]` of tensors `(batch, …, length,
            size)`. Axes between batch and length are treated like the batch.
        mask: List `[query_mask, value_mask]`, or with `key_mask`, of booleans `(batch, …, length)`.
        training, return_attention_scores, use_causal_mask: As for `keras.layers.Attention`. The
            causal mask is aligned to the start: query `i` sees the keys up to `i`.

    Output shape:
        `(batch, …, query_length, value_size)`; with `return_attention_scores` also the weights
        before dropout, float32 `(batch, …, query_length, key_length)`.

    Raises:
        ValueError: If inputs or masks are not lists of two or three, or their shapes do not match.

    Example:

    >>> layer = Attention(use_scale=True)
    >>> tuple(layer([np.ones((2, 3, 8)), np.ones((2, 5, 8))]).shape)
    (2, 3, 8)
    """

    def __init__(self, use_scale=False, score_mode="dot", dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        if score_mode not in ("dot", "concat"):
            raise ValueError(
                "Invalid value for argument score_mode. Expected one of {'dot', 'concat'}. "
                f"Received: score_mode={score_mode!r}. keras_attention.Attention has more scores."
            )
        self.supports_masking = True
        self.use_scale = use_scale
        self.score_mode = score_mode
        self.dropout = dropout
        self.seed = seed
        with keras.RematScope(mode=None):
            score = _ScoreOf(self._calculate_scores, lambda: self.weights)
            self.attention = attention.Attention(
                score, dropout=dropout, seed=seed, dtype=self.dtype_policy, name="attention"
            )

    def __call__(self, inputs, *args, **kwargs):
        self._require_list("inputs", inputs, "[query, value] or [query, value, key]")
        return super().__call__(inputs, *args, **kwargs)

    def build(self, input_shape):
        self._add_weights(input_shape)
        query_shape, _, key_shape = _three(input_shape)
        flat_shape = self._attended_axes(input_shape).flat_shape
        self.attention.build_heads(flat_shape(query_shape), flat_shape(key_shape))

    def _add_weights(self, input_shape):
        scalar = {"shape": (), "initializer": "ones"}
        self.scale = self.add_weight(name="scale", **scalar) if self.use_scale else None
        self.concat_score_weight = None
        if self.score_mode == "concat":
            self.concat_score_weight = self.add_weight(name="concat_score_weight", **scalar)

    def _calculate_scores(self, query, key):
        """Returns the logits `(…, query_length, key_length)`; subclasses may override it."""
        if self.use_scale:
            query = query * ops.cast(self.scale, query.dtype)
        if self.score_mode == "dot":
            return matmul(query, key, transpose_b=True)
        if self.use_scale:
            key = key * ops.cast(self.scale, key.dtype)
        pairs = ops.sum(ops.tanh(query[..., :, None, :] + key[..., None, :, :]), axis=-1)
        return ops.cast(self.concat_score_weight, pairs.dtype) * pairs

    def call(
        self,
        inputs,
        mask=None,
        training=False,
        return_attention_scores=False,
        use_causal_mask=False,
    ):
        if mask is not None:
            self._require_list("mask", mask, "[query_mask, value_mask]")
        axes = self._attended_axes([x.shape for x in inputs])
        query, value, key = map(axes.flat, _three(inputs))
        query_mask, value_mask, key_mask = (
            axes.flat_padding(self._padding_mask(*named))
            for named in zip(MASKS, (*(mask or (None, None)), None), _three(inputs), strict=False)
        )
        memory = self.attention.prepare(value, key, value_mask, key_mask)
        causal = from_start(masks.Causal(), query, value) if use_causal_mask else None
        context, weights = self.attention.attend(
            query, memory, None, causal, training, None, return_attention_scores
        )
        if query_mask is not None:
            context = ops.where(query_mask[..., None], context, ops.cast(0.0, context.dtype))
        context = axes.restored(context, inputs[0])
        if not return_attention_scores:
            return context
        weights = axes.restored_weights(weights[:, None], inputs[0], inputs[1])
        return context, ops.squeeze(weights, axis=-3)

    def compute_mask(self, inputs, mask=None):
        is_given = mask is not None and mask[0] is not None
        return ops.convert_to_tensor(mask[0]) if is_given else None

    def compute_output_shape(self, input_shape):
        """Returns the shape of the output, without that of the weights."""
        return (*input_shape[0][:-1], input_shape[1][-1])

    def compute_output_spec(self, *args, **kwargs):
        # The spec of what `call` returns, including the weights. `keras.layers.Layer` would use
        # `compute_output_shape`.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def _padding_mask(self, name, mask, tensor):
        if mask is None:
            return None
        mask = masks.as_boolean(mask, name, ranks=(len(tensor.shape) - 1,))
        if not agree(mask.shape, tensor.shape[:-1]):
            raise ValueError(
                f"`{name}` of {type(self).__name__} must have the shape {tuple(tensor.shape[:-1])} "
                f"of the tensor that it belongs to. Received: shape {tuple(mask.shape)}."
            )
        return mask

    def _attended_axes(self, shapes):
        return AttendedAxes(type(self).__name__, *_three(shapes), axes=(-2,))

    def _require_list(self, name, given, expected):
        owner = f"{type(self).__name__} layer"
        if not isinstance(given, list | tuple):
            rule = (
                "must be called on a list of inputs" if name == "inputs" else "mask must be a list"
            )
            raise ValueError(
                f"{owner} {rule}, namely {expected}. Received: {type(given).__name__}. In "
                "keras_attention.Attention, query, value and key are separate arguments."
            )
        if len(given) not in (2, 3):
            raise ValueError(
                f"{owner} takes {name} of length 2 or 3, namely {expected}. Received: a list of "
                f"length {len(given)}."
            )

    def get_config(self):
        return {
            **super().get_config(),
            "use_scale": self.use_scale,
            "score_mode": self.score_mode,
            "dropout": self.dropout,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="keras_attention.drop_in")
class AdditiveAttention(Attention):
    """`keras.layers.AdditiveAttention`: the additive score without its projections.

    $$ score(q, k) = \\sum_i s_i \\tanh(q_i + k_i) $$

    `keras_attention.scores.Additive` is the paper's score, with projections of query and key.

    Paper: Bahdanau et al. 2015, appendix A.1.2 (https://arxiv.org/abs/1409.0473).

    Args:
        use_scale: Whether `s` is a weight; otherwise it is 1.
        dropout, **kwargs: As for `Attention`.

    Call arguments:
        As for `Attention`.

    Example:

    >>> layer = AdditiveAttention()
    >>> tuple(layer([np.ones((2, 3, 8)), np.ones((2, 5, 8))]).shape)
    (2, 3, 8)
    """

    def __init__(self, use_scale=True, dropout=0.0, **kwargs):
        super().__init__(use_scale, dropout=dropout, **kwargs)

    def _add_weights(self, input_shape):
        self.scale = None
        if self.use_scale:
            shape = (input_shape[0][-1],)
            self.scale = self.add_weight(name="scale", shape=shape, initializer="glorot_uniform")

    def _calculate_scores(self, query, key):
        pairs = ops.tanh(query[..., :, None, :] + key[..., None, :, :])
        if self.use_scale:
            pairs = pairs * ops.cast(self.scale, pairs.dtype)
        return ops.sum(pairs, axis=-1)

    def get_config(self):
        config = super().get_config()
        del config["score_mode"]
        return config


class _ScoreOf(Score):
    """A score that a layer computes with its own weights."""

    def __init__(self, function, weights):
        super().__init__()
        self._function, self._weights_of = function, weights

    @property
    def pairwise_weights(self):
        return self._weights_of()

    def pairwise(self, query, key):
        return self._function(query, key)


def _three(inputs):
    """Returns query, value and key of a list of two or three."""
    return (*inputs, inputs[1])[:3]
