"""The readable implementation, against which all others are tested."""

from keras import ops

from keras_attention import masks
from keras_attention._backend import shape_of
from keras_attention._checks import fits
from keras_attention._products import matmul
from keras_attention.compute.tiles import visible_pairs


def attend_at_once(
    queries,
    key,
    value,
    *,
    scoring,
    normalizer,
    mask=None,
    dropout=None,
    start=None,
    training=None,
):
    """Attention as it is defined, with the whole array of scores in memory.

        weights = normalize(mask(score(query, key)))        context = weights · value

    Args:
        As for `keras_attention.compute.context_and_weights`.

    Returns:
        `(context, weights)`.
    """
    positions = masks.positions(shape_of(queries[0])[-2], shape_of(key)[-2], start)
    _, weights = scores_and_weights(
        [ops.cast(query, "float32") for query in queries],
        ops.cast(key, "float32"),
        positions,
        lead=lead_of(queries[0], value),
        scoring=scoring,
        normalizer=normalizer,
        mask=mask,
        training=training,
    )
    mixing = weights if dropout is None else dropout(weights)
    return matmul(ops.cast(mixing, value.dtype), value), weights


def scores_and_weights(queries, key, positions, *, lead, scoring, normalizer, mask, training):
    """Returns the scores of queries and keys at these positions, and their weights.

    Args:
        queries, key: As for `attend_at_once`, in float32.
        positions: The positions of the queries, and those of the keys.
        lead: Shape `(batch, *heads)` of the context.
        scoring, normalizer, mask, training: As for `attend_at_once`.
    """
    scores = scoring(queries, key, *positions)
    visible = None if mask is None else visible_pairs(mask, positions, lead)
    weights = normalizer(scores, visible, training)
    _require_weights(weights, scores, normalizer)
    return scores, weights


def _require_weights(weights, scores, normalizer):
    """Raises a `ValueError` unless a normalizer returned one weight for each score."""
    shape = getattr(weights, "shape", None)
    if shape is None or not fits(shape, scores.shape):
        raise ValueError(
            f"The normalizer {type(normalizer).__name__} must return weights of the shape of the "
            f"scores, (batch, *heads, queries, keys) = {tuple(scores.shape)}. Received: "
            f"{'no tensor' if shape is None else f'shape {tuple(shape)}'}. Reduce over the keys "
            "with axis=-1 and keepdims=True."
        )


def lead_of(query, value):
    """Returns the shape `(batch, *heads)` that queries and values broadcast to."""
    pairs = zip(query.shape[:-2], value.shape[:-2], strict=True)
    return [of_value if of_query == 1 else of_query for of_query, of_value in pairs]
