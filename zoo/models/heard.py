"""What cores of sounds have in common: means over the time steps that are not padding."""

from keras import ops

from zoo.models.rollout import attention_rollout

CERTAIN = 1e4  # a logit that leaves nothing to others


def mean_of_tokens(x, is_token):
    """Returns the masked mean over the second-to-last axis, 0 if all is masked."""
    counts = ops.cast(is_token, x.dtype)[..., None]
    number = ops.maximum(ops.sum(counts, axis=-2), 1.0)
    return ops.sum(x * counts, axis=-2) / number


def told_over_time(weights, tokens):
    """Explains an answer by attention, see `zoo.tasks.classification.Classifier.respond`.

    Args:
        weights: List of the weights of all blocks, `(batch, heads, tokens, tokens)`.
        tokens: int32 `(batch,)`, the number of tokens of each sound.

    Returns:
        Dictionary of float32 `attention` `(batch, tokens)`, the tokens that the answer comes from,
        by rollout; `heads` `(batch, blocks, heads, tokens)`, the same for each head alone; and
        `tokens`, int32 `(batch,)`. Each row sums to 1.
    """
    is_token = ops.arange(ops.shape(weights[0])[-1]) < tokens[:, None]
    heads = ops.stack(weights, axis=1)  # (batch, blocks, heads, tokens, tokens)
    return {
        "attention": mean_of_tokens(attention_rollout(weights), is_token),
        "heads": mean_of_tokens(ops.cast(heads, "float32"), is_token[:, None, None]),
        "tokens": ops.cast(tokens, "int32"),
    }


def blank_after_the_end(logits, is_token, blank_id):
    """Returns float32 logits in which the blank has probability 1 after the end of a sound.

    Args:
        logits: `(batch, tokens, labels)`.
        is_token: Boolean `(batch, tokens)`.
        blank_id: The label of a time at which no token begins.
    """
    logits = ops.cast(logits, "float32")
    blank = CERTAIN * ops.one_hot(blank_id, logits.shape[-1], dtype="float32")
    return ops.where(is_token[..., None], logits, blank)
