"""Positions inside heads, from their equations in float64 NumPy."""

import math

import numpy as np
from keras import ops

from keras_attention import positions
from keras_attention.positions.alibi import slopes


def rotary(x, places, max_wavelength=10000, rotated=None):
    """Equation 34 of Su et al. as a block-diagonal matrix for each position."""
    size = rotated or x.shape[-1]
    y = x.copy()
    for row, place in enumerate(places):
        matrix = np.eye(x.shape[-1])
        for i in range(size // 2):
            angle = place * max_wavelength ** (-2 * i / size)
            cosine, sine = np.cos(angle), np.sin(angle)
            matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cosine, -sine], [sine, cosine]]
        y[..., row, :] = x[..., row, :] @ matrix.T
    return y


def alibi_bias(position, query, queries, keys):
    bias = np.zeros((*query.shape[:-1], len(keys)))
    for *front, i, j in np.ndindex(bias.shape):
        heads = query.shape[1:-2]
        slope = slopes(heads[0])[front[1]] if heads else 2.0**-8
        bias[(*front, i, j)] = -slope * abs(queries[i] - keys[j])
    return bias


def kerple_bias(position, query, queries, keys):
    rate, growth = (
        np.logaddexp(0, ops.convert_to_numpy(each).astype("float64")).reshape(-1)
        for each in (position.rate, position.growth)
    )
    bias = np.zeros((*query.shape[:-1], len(keys)))
    for *front, i, j in np.ndindex(bias.shape):
        head, distance = (front[1] if query.ndim == 4 else 0), abs(int(queries[i]) - int(keys[j]))
        if position.kind == "logarithmic":
            bias[(*front, i, j)] = -rate[head] * np.log(1 + growth[head] * distance)
        else:
            power = 2 - 2 * np.exp(-growth[head])  # 2 sigmoid, of the softplus
            bias[(*front, i, j)] = -rate[head] * float(distance) ** power
    return bias


def t5_bias(position, query, queries, keys):
    """The bias of `T5Bias(8, 6)`."""
    table = _embeddings(position)
    bias = np.zeros((*query.shape[:-1], len(keys)))
    for *front, i, j in np.ndindex(bias.shape):
        after = int(keys[j]) - int(queries[i])
        place = sum(abs(after) >= first for first in (1, 2, 4))  # 4 ranges: 0, 1, 2 to 3, 4 or more
        bias[(*front, i, j)] = table[(*front[1:], place + (4 if after > 0 else 0))]
    return bias


def shaw_bias(position, query, queries, keys):
    """The bias of `Shaw(2)`."""
    table = _embeddings(position)
    bias = np.zeros((*query.shape[:-1], len(keys)))
    for *front, i, j in np.ndindex(bias.shape):
        place = min(max(int(keys[j]) - int(queries[i]), -2), 2) + 2
        bias[(*front, i, j)] = query[(*front, i)] @ table[place] / np.sqrt(query.shape[-1])
    return bias


def grid_bias(position, query, queries, keys):
    """The bias of `GridBias((3, 4), (2, 3), num_prefix_tokens=1)`."""
    table = _embeddings(position)
    bias = np.zeros((*query.shape[:-1], len(keys)))
    for *front, i, j in np.ndindex(bias.shape):
        if queries[i] < 1 or keys[j] < 1:  # a token in front of the grid
            continue
        of_query, of_key = (divmod(int(place) - 1, 4) for place in (queries[i], keys[j]))
        rows = min(max(of_query[0] - of_key[0], -1), 1)
        columns = min(max(of_query[1] - of_key[1], -2), 2)
        bias[(*front, i, j)] = table[(*front[1:], rows + 1, columns + 2)]
    return bias


def transformer_xl_bias(position, query, queries, keys):
    """The positional terms of section 3.3 of Dai et al., pair by pair."""
    kernel, vector = (
        ops.convert_to_numpy(each).astype("float64")
        for each in (position.kernel, position.bias_vector)
    )
    frequencies = kernel.shape[-1] // 2
    bias = np.zeros((*query.shape[:-1], len(keys)))
    for *front, i, j in np.ndindex(bias.shape):
        head = tuple(front[1:])
        before = int(queries[i]) - int(keys[j])
        angles = before * position.max_wavelength ** (-np.arange(frequencies) / frequencies)
        wave = np.concatenate([np.sin(angles), np.cos(angles)])
        asked = query[(*front, i)] + vector[head]
        bias[(*front, i, j)] = asked @ kernel[head] @ wave / np.sqrt(query.shape[-1])
    return bias


def vectors(position):
    """The normalized vectors of a `Disentangled` position, or `None`."""
    if not isinstance(position, positions.Disentangled):
        return None
    embedding = position.embedding
    table = _embeddings(embedding)
    if embedding.norm is None:
        return table
    gamma, beta = (ops.convert_to_numpy(each).astype("float64") for each in embedding.norm.weights)
    centered = table - table.mean(-1, keepdims=True)
    return gamma * centered / np.sqrt(table.var(-1, keepdims=True) + embedding.epsilon) + beta


def disentangled_bias(position, query, key, queries, keys, for_query, for_key):
    """The last two terms of equation 4 of He et al., pair by pair.

    Args:
        for_query, for_key: Vectors `(*heads, number, size)` that queries and keys are compared
            with.
    """
    bias = np.zeros((*query.shape[:-1], len(keys)))
    for *front, i, j in np.ndindex(bias.shape):
        place = distance_place(position.embedding, int(queries[i]) - int(keys[j]))
        asked, found = for_query[tuple(front[1:])][place], for_key[tuple(front[1:])][place]
        bias[(*front, i, j)] = query[(*front, i)] @ asked + key[(*front, j)] @ found
    return bias / np.sqrt(3 * query.shape[-1])


def distance_place(embedding, distance):
    """The place of the vector of a distance, from the code of DeBERTa."""
    buckets, longest = embedding.num_buckets, embedding.max_distance
    middle = longest if buckets is None else buckets // 2
    if buckets is not None and abs(distance) > middle // 2:
        ratio = math.log(abs(distance) / (middle // 2)) / math.log((longest - 1) / (middle // 2))
        place = middle // 2 + math.ceil(ratio * (middle // 2 - 1))
        distance = place if distance > 0 else -place
    return min(max(distance + middle, 0), 2 * middle - 1)


def score_scale(position):
    """The factor of the scores to which a position adds its bias."""
    return 1 / np.sqrt(3) if isinstance(position, positions.Disentangled) else 1.0


def rotated(position, x, places):
    """Returns queries or keys after rotation by a position object."""
    return rotary(x, places) if isinstance(position, positions.Rotary) else x


def bias(position, query, key, queries, keys, *projected):
    """Returns the bias that a position object, or `None`, adds to the logits.

    Args:
        query, key: Queries and keys `(batch, *heads, length, size)`.
        queries, keys: Their positions.
        *projected: The last arguments of `disentangled_bias`, for such a position.
    """
    if projected:
        return disentangled_bias(position, query, key, queries, keys, *projected)
    found = BIASES.get(type(position))
    return 0.0 if found is None else found(position, query, queries, keys)


BIASES = {
    positions.ALiBi: alibi_bias,
    positions.GridBias: grid_bias,
    positions.Kerple: kerple_bias,
    positions.T5Bias: t5_bias,
    positions.Shaw: shaw_bias,
    positions.TransformerXL: transformer_xl_bias,
}


def _embeddings(position):
    return ops.convert_to_numpy(position.embeddings).astype("float64")
