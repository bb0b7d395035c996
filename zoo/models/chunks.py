"""Texts as models of labels read them: token ids in chunks, and one result for all of them."""

import keras
from keras import ops


def parts_of(inputs):
    """Returns int32 token ids, and segment ids or `None`.

    Args:
        inputs: Token ids, or a dictionary of `token_ids` and `segment_ids`.
    """
    if not isinstance(inputs, dict):
        return ops.cast(inputs, "int32"), None
    return ops.cast(inputs["token_ids"], "int32"), ops.cast(inputs["segment_ids"], "int32")


def by_chunk(ids):
    """Returns ids `(batch, length)` or `(batch, chunks, length)` as `(batch * chunks, length)`."""
    return ops.reshape(ids, (-1, ops.shape(ids)[-1]))


def mean_of_chunks(x, token_ids, pad_id):
    """Returns a vector for each text, the mean of those of its chunks, weighted by their tokens.

    Args:
        x: Tensor `(batch * chunks, size)`.
        token_ids: int32 `(batch, length)` or `(batch, chunks, length)`.
        pad_id: Id of the padding token.

    Returns:
        Tensor `(batch, size)`.
    """
    if len(token_ids.shape) == 2:
        return x
    tokens = ops.cast(ops.not_equal(token_ids, pad_id), "float32")
    shares = ops.sum(tokens, axis=-1)  # (batch, chunks)
    shares = shares / ops.maximum(ops.sum(shares, axis=1, keepdims=True), 1.0)
    of_chunks = ops.reshape(ops.cast(x, "float32"), (*ops.shape(shares), x.shape[-1]))
    return ops.cast(ops.sum(of_chunks * shares[..., None], axis=1), x.dtype)


def told_of_chunks(looks, token_ids, pad_id):
    """Returns the explanation of the answers for texts from that for their chunks.

    Args:
        looks: float32 `(batch * chunks, length)`, how much each token contributes to a chunk.
        token_ids: int32 `(batch, length)` or `(batch, chunks, length)`.
        pad_id: Id of the padding token.

    Returns:
        Dictionary of int32 `token_ids` and float32 `attention`, both `(batch, chunks * length)`;
        each row of the latter sums to 1, or to 0 for a text without a token.
    """
    counts = ops.cast(ops.not_equal(by_chunk(token_ids), pad_id), "float32")
    looks = looks * counts * ops.sum(counts, axis=1, keepdims=True)
    looks = ops.reshape(looks, (ops.shape(token_ids)[0], -1))
    looks = looks / ops.maximum(ops.sum(looks, axis=1, keepdims=True), keras.config.epsilon())
    return {"token_ids": ops.reshape(token_ids, (ops.shape(token_ids)[0], -1)), "attention": looks}
