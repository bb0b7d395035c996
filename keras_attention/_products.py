"""Products of tensors: the one place that asks the backend for them."""

from keras import ops


def matmul(a, b):
    """Multiplies matrices as `ops.matmul` does, without the axes that have size 1 in both.

    TensorFlow 2.21 with oneDNN, its default on x86, corrupts memory where batch axes `(n, 1)` meet
    `(1, 1)`, as in attention with one head and a weight for each head, forward and in the gradient
    (https://github.com/tensorflow/tensorflow/issues/117700). `(n,)` and `(1,)`, and more heads,
    are computed right.

    Args:
        a, b: Tensors `(..., m, k)` and `(..., k, j)`, whose axes in front broadcast.
    """
    rank = max(len(a.shape), len(b.shape))
    single = [axis for axis in range(-rank, -2) if _size(a, axis) == _size(b, axis) == 1]
    if not single:
        return ops.matmul(a, b)
    return ops.expand_dims(ops.matmul(_without(a, single), _without(b, single)), single)


def dot(x, vectors):
    """Returns the dot products of `x` with the vector of each head.

    Args:
        x: Tensor `(batch, *heads, query_length, key_length, size)`.
        vectors: Tensor `(*heads, size)`. That of a single head goes without its axis, for the
            reason that `matmul` gives.

    Returns:
        Tensor `(batch, *heads, query_length, key_length)`.
    """
    if len(vectors.shape) > 1 and vectors.shape[0] == 1:
        vectors = ops.squeeze(vectors, axis=0)
    return ops.einsum("...qku,...u->...qk", x, vectors)


def _size(x, axis):
    """Returns the size of an axis, 1 of one that broadcasting would add."""
    return x.shape[axis] if -axis <= len(x.shape) else 1


def _without(x, axes):
    return ops.squeeze(x, axis=[axis for axis in axes if -axis <= len(x.shape)])
