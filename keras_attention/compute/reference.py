"""The readable computation, and the oracle of every other one."""

from keras import ops


def attend(query, key, value, *, pairwise, normalizer, mask=None, dropout=None):
    """Attention as its definition reads, with the whole array of scores in memory.

        weights = normalize(mask(pairwise(query, key)))        context = weights · value

    Scores and weights are float32 whatever the inputs are; the context has the dtype of `value`.

    Args:
        query: Prepared queries `(batch, *heads, query_length, size)`.
        key: Prepared keys `(batch, *heads, key_length, size)`.
        value: Tensor `(batch, *heads, key_length, value_size)`.
        pairwise: The second phase of a score.
        normalizer: A `Normalizer`.
        mask: A `Mask` or `None`.
        dropout: A function applied to the weights that make the context, or `None`.

    Returns:
        `(context, weights)`: `(batch, *heads, query_length, value_size)` and, before dropout,
        `(batch, *heads, query_length, key_length)`.
    """
    scores = pairwise(ops.cast(query, "float32"), ops.cast(key, "float32"))
    visible = None
    if mask is not None:
        visible = mask(ops.shape(query)[-2], ops.shape(key)[-2])  # (batch, heads, Tq, Tk)
        if len(scores.shape) == 3:
            visible = ops.squeeze(visible, axis=1)  # (batch, Tq, Tk)
    weights = normalizer(scores, visible)
    mixing = weights if dropout is None else dropout(weights)
    return ops.matmul(ops.cast(mixing, value.dtype), value), weights
