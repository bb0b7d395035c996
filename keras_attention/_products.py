"""Products of tensors: the only place that calls the backend for them."""

import keras
from keras import ops

from keras_attention._backend import multiply
from keras_attention._checks import require_dense
from keras_attention._shapes import sizes_of


def matmul(a, b, *, transpose_a=False, transpose_b=False):
    """Multiplies matrices like `ops.matmul`, but without the axes that have size 1 in both.

    TensorFlow 2.21 with oneDNN, its default on x86, corrupts memory when batch axes `(n, 1)` meet
    `(1, 1)`, as in attention with one head and a weight for each head, both in the forward pass and
    in the gradient (https://github.com/tensorflow/tensorflow/issues/117700). `(n,)` with `(1,)`,
    and more heads, are computed correctly.

    Args:
        a, b: Tensors `(..., m, k)` and `(..., k, j)`, whose leading axes broadcast.
        transpose_a, transpose_b: Whether to exchange the last two axes of the tensor first.

    Raises:
        ValueError: If the sizes `k` are known and differ.
    """
    sizes = a.shape[-2 if transpose_a else -1], b.shape[-1 if transpose_b else -2]
    if all(isinstance(size, int) for size in sizes) and sizes[0] != sizes[1]:
        raise ValueError(
            f"Vectors of size {sizes[0]} cannot be multiplied by vectors or weights for size "
            f"{sizes[1]}. Received: shapes {tuple(a.shape)} and {tuple(b.shape)}. A layer that is "
            "built takes only queries and keys of the sizes that it was built for: make a new "
            "layer for others."
        )
    rank = max(len(a.shape), len(b.shape))
    single = [axis for axis in range(-rank, -2) if _size(a, axis) == _size(b, axis) == 1]
    product = multiply(_without(a, single), _without(b, single), transpose_a, transpose_b)
    return ops.expand_dims(product, single) if single else product


def project(x, kernel, bias=None):
    """Multiplies the vectors `(..., size)` of a tensor by a matrix `(size, units)`; adds a bias.

    On TensorFlow they become the rows of one matrix, see `keras_attention._dense`. Its optimizer
    makes one operation of a product and a bias that follows it directly.
    """
    if keras.backend.backend() != "tensorflow" or len(x.shape) == 2:
        product = ops.matmul(x, kernel)
        return product if bias is None else ops.add(product, bias)
    require_dense("x", x)
    rows = project(ops.reshape(x, (-1, kernel.shape[0])), kernel, bias)
    return ops.reshape(rows, (*sizes_of(x)[:-1], kernel.shape[1]))


def dot(x, vectors):
    """Returns the dot products of `x` with the vector of each head.

    The vector of a single head is used without broadcast axes, for the reason given in `matmul`.

    Args:
        x: Tensor `(batch, *heads, query_length, key_length, size)`.
        vectors: Tensor `(*heads, size)`.

    Returns:
        Tensor `(batch, *heads, query_length, key_length)`.
    """
    if tuple(vectors.shape[:-1]) in ((), (1,)):
        return ops.matmul(x, ops.reshape(vectors, (-1,)))
    return ops.einsum("...qku,...u->...qk", x, vectors)


def einsum(equation, a, b):
    """`ops.einsum` of two tensors, which the backend turns into matrices with one batch axis."""
    return ops.einsum(equation, a, b)


def transposed(x):
    """Exchanges the last two axes."""
    return ops.swapaxes(x, -1, -2)


def _size(x, axis):
    """Returns the size of an axis, or 1 for an axis that broadcasting would add."""
    return x.shape[axis] if -axis <= len(x.shape) else 1


def _without(x, axes):
    axes = [axis for axis in axes if -axis <= len(x.shape)]
    return ops.squeeze(x, axis=axes) if axes else x
