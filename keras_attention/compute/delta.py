"""Linear attention with a memory that decays, and that may correct what it holds.

The memory of a head is a matrix that maps keys to values. Positions are processed in chunks: those
of one chunk in parallel, from the memory before it, and the memories of the chunks one by one. With
a correction, the positions of a chunk depend on each other by a triangular system of equations.

Products of decays are computed from differences of sums of their logarithms, which are at most 0.
"""

import keras
from keras import ops

from keras_attention._backend import larger, shape_of
from keras_attention._products import matmul, transposed
from keras_attention._split import split_after

CHUNK = 64  # number of positions that are processed in parallel
FORGETS_ALL = -104.0  # its exponential is 0 in float32; sums of lower ones lose the others


def empty_state(batch, heads, key_dim, value_dim):
    """Returns the memory before the first position, `(batch, heads, key_dim, value_dim)`."""
    return ops.zeros((batch, heads, key_dim, value_dim), "float32")


def attend(query, key, value, log_decay, strength=None, before=None):
    """Reads a memory after each position has been written into it.

        S_t = diag(α_t) S_{t-1} + k_t v_tᵀ                          without a strength
        S_t = (I - β_t k_t k_tᵀ) diag(α_t) S_{t-1} + β_t k_t v_tᵀ   with a strength: the delta rule
        context_t = S_tᵀ q_t

    Args:
        query, key: Tensors `(batch, heads, length, key_dim)`.
        value: Tensor `(batch, heads, length, value_dim)`.
        log_decay: Logarithms of `α`, at most 0, float32: `(batch, heads, length, key_dim)`, or
            `(batch, heads, length, 1)` if all channels of a key share them.
        strength: `β`, float32 `(batch, heads, length)`, or `None`.
        before: `S` before the first position, float32 `(batch, heads, key_dim, value_dim)`, or
            `None` if it is empty.

    Returns:
        `(context, state)`, float32: one vector for each query, and `S` after the last position.
    """
    batch, heads, length, key_dim = shape_of(key)
    cut, join = _chunks(length, by_channel=log_decay.shape[-1] > 1)
    query, key, value, log_decay = map(cut, (query, key, value, log_decay))
    # (batch, heads, chunks, chunk, 1 or key_dim)
    total = ops.cumsum(ops.maximum(log_decay, FORGETS_ALL), axis=-2)
    rest = ops.exp(total[..., -1:, :] - total)  # decay until the end of the chunk
    products = _products(key, total)
    # Of the state, by a chunk; its dtype does not depend on the `floatx` of Keras.
    transition = ops.exp(total[..., -1:, :]) * ops.eye(key_dim, dtype="float32")
    written, erased = value, None
    if strength is not None:
        strength = cut(strength[..., None])
        system = ops.tril(products(strength * key), -1)
        system = system + ops.eye(system.shape[-1], dtype="float32")
        right = strength * ops.concatenate([ops.exp(total) * key, value], axis=-1)
        solved = ops.solve_triangular(system, right, lower=True)
        erased, written = split_after(solved, key_dim)
        transition = transition - matmul(rest * key, erased, transpose_a=True)
    added = matmul(rest * key, written, transpose_a=True)
    if before is None:
        before = empty_state(batch, heads, key_dim, shape_of(value)[-1])
    states = _states(ops.moveaxis(transition, 2, 0), ops.moveaxis(added, 2, 0), before)
    earlier = ops.moveaxis(states[:-1], 0, 2)  # (batch, heads, chunks, key_dim, value_dim)
    if erased is not None:
        written = written - matmul(erased, earlier)
    context = matmul(products(query), written) + matmul(ops.exp(total) * query, earlier)
    return join(context), states[-1]


def weights(query, key, log_decay, strength=None):
    """Returns the weights of the values in the contexts, from an empty memory.

    Args:
        As for `attend`.

    Returns:
        Tensor `(batch, heads, length, length)`, float32, with zeros for later values.
    """
    batch, heads, length, _ = shape_of(key)
    single = ops.broadcast_to(ops.eye(length, dtype="float32"), (batch, heads, length, length))
    return attend(query, key, single, log_decay, strength)[0]


def _chunks(length, by_channel):
    """Returns functions that cut sequences into chunks, padded with zeros, and join them again."""
    longest = larger(length, 1)
    chunk = min(CHUNK, longest) if isinstance(longest, int) else CHUNK
    if by_channel:
        chunk = 2 ** (chunk - 1).bit_length()  # `_products_by_channel` halves them
    number = -(-longest // chunk)

    def cut(x):
        """(batch, heads, length, size) -> (batch, heads, chunks, chunk, size)."""
        batch, heads, _, size = shape_of(x)
        padding = number * chunk - length
        x = ops.pad(ops.cast(x, "float32"), [(0, 0), (0, 0), (0, padding), (0, 0)])
        return ops.reshape(x, (batch, heads, number, chunk, size))

    def join(x):
        batch, heads, _, _, size = shape_of(x)
        return ops.reshape(x, (batch, heads, number * chunk, size))[:, :, :length]

    return cut, join


def _products(key, total):
    """Returns a function of vectors: their products with the keys up to theirs, decayed since.

        x_i ↦ Σ_c x_ic k_jc exp(total_ic - total_jc) for j ≤ i, and 0 for later keys

    Args:
        key: Keys `(batch, heads, chunks, chunk, key_dim)`; the vectors have the same shape.
        total: Sums of the logarithms up to each position, `(…, chunk, 1 or key_dim)`.
    """
    if total.shape[-1] > 1:
        return _products_by_channel(key, total)
    differences = total - transposed(total)  # (…, chunk, chunk)
    is_later = ops.tril(ops.ones(differences.shape[-2:], "bool"))
    decays = ops.exp(ops.where(is_later, differences, -float("inf")))
    return lambda x: matmul(x, key, transpose_b=True) * decays


def _products_by_channel(key, total):
    """Returns the function of `_products` for decays of each channel.

    These are products of matrices only where a position lies between the keys and the vectors, from
    and to which they decay: the last one of a first half. The halves are halved again and again.
    """
    size = total.shape[-2]
    levels = []
    for level in range((size - 1).bit_length()):
        half = 2**level
        (first, second), (key_of_first, _) = _halves(total, half), _halves(key, half)
        middle = ops.stop_gradient(first[:, -1:])  # the product is the same for any of them
        levels.append((half, key_of_first * ops.exp(middle - first), ops.exp(second - middle)))

    def products(x):
        found = ops.reshape(ops.sum(x * key, axis=-1), (-1, 1, 1))  # of each vector with its key
        for half, decayed, decays in levels:
            lower = matmul(_halves(x, half)[1] * decays, decayed, transpose_b=True)
            upper_left, lower_right = _halves(found, half)
            left = ops.concatenate([upper_left, lower], axis=1)
            right = ops.concatenate([ops.zeros_like(lower), lower_right], axis=1)
            found = ops.concatenate([left, right], axis=2)
        return ops.reshape(found, (*shape_of(x)[:-1], size))

    return products


def _halves(x, half):
    """Returns the first and second halves of blocks of rows, each `(all blocks, half, size)`."""
    return ops.unstack(ops.reshape(x, (-1, 2, half, x.shape[-1])), axis=1)


def _states(transition, added, first):
    """Returns all states of `S_{c+1} = T_c S_c + A_c`, `(chunks + 1, …, key_dim, value_dim)`.

    Args:
        transition: `T`, `(chunks, …, key_dim, key_dim)`.
        added: `A`, `(chunks, …, key_dim, value_dim)`.
        first: `S_0`, `(…, key_dim, value_dim)`.
    """
    if keras.backend.backend() != "tensorflow":
        return _scan(transition, added, first)

    # XLA cannot differentiate a loop of TensorFlow of unknown length, but the gradient is the same
    # recurrence backward.
    @ops.custom_gradient
    def states(transition, added, first):
        def gradient(upstream):
            backward = ops.flip(transposed(transition), 0), ops.flip(upstream[:-1], 0), upstream[-1]
            of_states = ops.flip(_states(*backward), 0)
            # Not kept from the forward pass, so that there is a second derivative.
            earlier = _states(transition, added, first)[:-1]
            of_added = of_states[1:]
            return matmul(of_added, earlier, transpose_b=True), of_added, of_states[0]

        return _scan(transition, added, first), gradient

    return states(transition, added, first)


def _scan(transition, added, first):
    # One tensor, since Keras scans several of unknown length only on JAX and PyTorch.
    chunks = ops.concatenate([transition, added], axis=-1)
    if chunks.shape[0] == 1:  # no loop for a decoding step
        return ops.stack([first, _next(first, chunks[0])[0]])
    last, earlier = ops.scan(_next, first, chunks)
    return ops.concatenate([earlier, last[None]], axis=0)


def _next(state, chunk):
    """Returns the state after a chunk and the one before it; as a closure, JAX would recompile."""
    transition, added = split_after(chunk, state.shape[-2])
    return matmul(transition, state) + added, state
