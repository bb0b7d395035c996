"""Attention written from its equations in float64 NumPy, with the weights of a Keras layer."""

import re

import numpy as np
from keras import ops

from tests.attention import position_equations


def float64(tensor):
    """Returns any tensor, including bfloat16, as a float64 array."""
    return ops.convert_to_numpy(ops.cast(tensor, "float32")).astype("float64")


def weight(layer, name):
    """Returns the weight of a layer with this name."""
    (found,) = (each for each in layer.weights if each.name == name)
    return float64(found)


def _row_of_sum(scores):
    return scores / scores.sum() if scores.sum() else 0 * scores


def _row_of_simplex(power):
    """Returns max(0, s - τ)^power, with τ found by bisection so that the sum is 1."""

    def weights(scores):
        scores = scores / power
        low, high = scores.max() - 1, scores.max()
        for _ in range(100):
            middle = (low + high) / 2
            too_much = (np.maximum(scores - middle, 0) ** power).sum() > 1
            low, high = (middle, high) if too_much else (low, middle)
        return np.maximum(scores - low, 0) ** power

    return weights


def _row_of_stick(scores):
    weights, left = [], 1.0
    for part in 1 / (1 + np.exp(-np.clip(scores[::-1], -700, 700))):
        weights.append(part * left)
        left *= 1 - part
    return np.array(weights[::-1])


def row_of_top(k):
    """Returns the softmax over the scores that are not below the k-th highest one."""

    def weights(scores):
        is_high = scores >= np.sort(scores)[-min(k, len(scores))]
        powers = np.where(is_high, np.exp(scores - scores.max()), 0.0)
        return powers / powers.sum()

    return weights


# the weights that a normalizer computes from the visible scores of one row
NORMALIZERS = {
    "softmax": lambda scores: np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum(),
    "softmax_one": lambda scores: np.exp(
        scores - np.logaddexp(0, scores.max() + np.log(np.exp(scores - scores.max()).sum()))
    ),
    "sum": _row_of_sum,
    "sigmoid": lambda scores: 1 / (1 + np.exp(-np.maximum(scores, -700))),
    "stick_breaking": _row_of_stick,
    "hard": lambda scores: np.eye(len(scores))[scores.argmax()],
    "sparsemax": _row_of_simplex(1),
    "entmax15": _row_of_simplex(2),
    "top_k": row_of_top(8),
}


def normalized(name, scores, visible):
    """The weights of a normalizer, computed row by row from the visible scores."""
    weights = np.zeros(scores.shape)
    for row in np.ndindex(scores.shape[:-1]):
        seen = visible[row]
        if seen.any():
            weights[row][seen] = NORMALIZERS[name](scores[row][seen])
    return weights


def softmax(scores, visible):
    """Softmax of each row over its visible keys; a row that sees none is 0 everywhere."""
    return normalized("softmax", scores, visible)


def visible_pairs(
    batch,
    heads,
    query_length,
    key_length,
    query_mask=None,
    value_mask=None,
    key_mask=None,
    attention_mask=None,
    use_causal_mask=False,
):
    """The pairs that all masks allow: booleans (batch, heads, query_length, key_length)."""
    visible = np.ones((batch, heads, query_length, key_length), bool)
    pairs = np.asarray(True if attention_mask is None else attention_mask)
    pairs = np.broadcast_to(pairs[:, None] if pairs.ndim == 3 else pairs, visible.shape)
    for b, h, i, j in np.ndindex(visible.shape):
        visible[b, h, i, j] = (
            pairs[b, h, i, j]
            and (query_mask is None or query_mask[b][i])
            and (value_mask is None or value_mask[b][j])
            and (key_mask is None or key_mask[b][j])
            and (not use_causal_mask or j <= key_length - query_length + i)
        )
    return visible


def logits(score, query, key, head=()):
    """The scores of all queries and keys of one head, (batch, query_length, key_length)."""
    kind = type(score).__name__
    if kind in ("Dot", "ScaledDot"):
        usual = 1.0 if kind == "Dot" else query.shape[-1] ** -0.5
        return (getattr(score, "scale", None) or usual) * np.einsum("bqd,bkd->bqk", query, key)
    if kind == "General":
        return np.einsum("bqd,de,bke->bqk", query, weight(score, "kernel")[head], key)
    if kind == "Additive":
        query = query @ weight(score, "query_kernel")[head]
        key = key @ weight(score, "key_kernel")[head] + weight(score, "bias")[head]
        activate = ACTIVATIONS[score.activation.__name__]
        added = activate(query[:, :, None, :] + key[:, None, :, :])
        scale = weight(score, "scale")[head][0]
        if score.normalized:
            scale = weight(score, "gain")[head][0] * scale / np.linalg.norm(scale)
        return added @ scale
    if kind == "LinearAdditive":
        query = query @ weight(score, "query_kernel")[head]
        added = query + (key @ weight(score, "key_kernel")[head]).swapaxes(1, 2)
        return ACTIVATIONS[score.activation.__name__](added)
    if kind == "Trilinear":
        of_query, of_key, of_product = (
            weight(score, f"{part}_kernel")[head][:, 0] for part in ("query", "key", "product")
        )
        products = query[:, :, None, :] * key[:, None, :, :]
        return (query @ of_query)[:, :, None] + (key @ of_key)[:, None, :] + products @ of_product
    if kind == "Cosine":
        norms = np.linalg.norm(query, axis=-1)[:, :, None] * np.linalg.norm(key, axis=-1)[:, None]
        products = np.einsum("bqd,bkd->bqk", query, key)
        return _learned(score, "sharpness", head) * products / np.where(norms > 0, norms, 1)
    if kind in DISTANCES:
        difference = query[:, :, None, :] - key[:, None, :, :]
        width = 1.0 if kind == "Euclidean" else _learned(score, "width", head)
        return DISTANCES[kind](np.sqrt((difference**2).sum(-1)) / width)
    return _positional_logits(kind, score, query, key, head)


# activations of additive scores; the slope of the leaky one is that of graph attention networks
ACTIVATIONS = {
    "tanh": np.tanh,
    "linear": lambda x: x,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
}
# the score as a function of u, the distance in units of its width
DISTANCES = {
    "Euclidean": lambda u: -(u**2),
    "Gaussian": lambda u: -(u**2) / 2,
    "Boxcar": lambda u: np.where(u <= 1, 1.0, 0.0),
    "Triangular": lambda u: np.where(u <= 1, 1 - u, 0.0),
    "Epanechnikov": lambda u: np.where(u <= 1, 0.75 * (1 - u**2), 0.0),
}


def _learned(score, name, head):
    """The number given as an argument of a score, or learned as a weight that holds its log."""
    is_learned = getattr(score, f"learned_{name}", False)
    return np.exp(weight(score, f"log_{name}")[head]) if is_learned else getattr(score, name)


def _positional_logits(kind, score, query, key, head):
    """The scores that do not read keys, computed for each pair of positions."""
    (batch, queries, _), keys = query.shape, key.shape[1]
    found = np.zeros((batch, queries, keys))
    for b, i, j in np.ndindex(found.shape):
        row = (keys - queries + i) % score.max_length  # position of the query
        if kind == "Location":
            found[b, i, j] = weight(score, "kernel")[head][j] @ query[b, i]
        elif kind == "DenseSynthesizer":
            hidden = np.maximum(query[b, i] @ weight(score, "hidden_kernel")[head], 0)
            found[b, i, j] = weight(score, "kernel")[head][j] @ hidden
        elif kind == "RandomSynthesizer" and score.rank is None:
            found[b, i, j] = weight(score, "table")[head][row, j]
        elif kind == "RandomSynthesizer":
            factors = weight(score, "query_factor")[head], weight(score, "key_factor")[head]
            found[b, i, j] = factors[0][row] @ factors[1][j]
        else:
            raise NotImplementedError(kind)
    return found


def attention(layer, query, value, key=None, visible=None, normalize=None, **masks):
    """Returns context and weights of the layer `Attention`.

    Args:
        visible: Visible pairs `(batch, …, query_length, key_length)`, instead of masks.
        normalize: Function of scores, visible pairs and head, instead of the layer's normalizer.
    """
    key = value if key is None else key
    if visible is None:
        visible = visible_pairs(len(query), 1, query.shape[1], key.shape[1], **masks)
    places = _places(query, key)
    vectors = position_equations.vectors(layer.position)
    projected = () if vectors is None else (vectors, vectors)
    bias = position_equations.bias(layer.position, query, key, *places, *projected)
    scores = _scores(layer, query, key, places, bias)
    weights = (normalize or _normalizer(layer))(scores, visible[:, 0], ())
    return weights @ value, weights


def multi_head_attention(layer, query, value, key=None, visible=None, normalize=None, **masks):
    """Returns output and weights of the layer `MultiHeadAttention`.

    Args:
        visible: Visible pairs `(batch, heads, query_length, key_length)`, instead of masks.
        normalize: As for `attention`.
    """
    key = value if key is None else key
    if visible is None:
        visible = visible_pairs(len(query), layer.num_heads, query.shape[1], key.shape[1], **masks)
    heads, groups = layer.num_heads, layer.num_key_value_heads

    def of_queries(x):
        return np.stack(_heads(layer.query_projection, x, heads))

    def of_keys(x, projection=layer.key_projection):
        return np.repeat(_heads(projection, x, groups), heads // groups, axis=0)

    queries, keys, values = of_queries(query), of_keys(key), of_keys(value, layer.value_projection)
    weights = np.zeros(visible.shape)
    places = _places(query, key)
    inner = layer.attention
    vectors = position_equations.vectors(inner.position)
    projected = () if vectors is None else (of_keys(vectors), of_queries(vectors))
    biases = np.zeros(visible.shape)
    biases += position_equations.bias(
        inner.position, queries.swapaxes(0, 1), keys.swapaxes(0, 1), *places, *projected
    )
    contexts = []
    for head in range(layer.num_heads):
        scores = _scores(inner, queries[head], keys[head], places, biases[:, head], head)
        weights[:, head] = (normalize or _normalizer(inner))(scores, visible[:, head], head)
        contexts.append(weights[:, head] @ values[head])
    return _dense(layer.output_projection, np.concatenate(contexts, axis=-1)), weights


def _normalizer(layer):
    return lambda scores, visible, head: normalized(_name(layer.normalizer), scores, visible)


def _places(query, key):
    """The positions of queries and keys that end at the same position."""
    lengths = query.shape[1], key.shape[1]
    return np.arange(lengths[0]) + lengths[1] - lengths[0], np.arange(lengths[1])


def _scores(layer, query, key, places, bias, head=()):
    """The logits of one head, including position and soft cap, relative to that of a sink."""
    query, key = (
        position_equations.rotated(layer.position, *each)
        for each in zip((query, key), places, strict=True)
    )
    scale = position_equations.score_scale(layer.position)
    scores = scale * logits(layer.score, query, key, head) + bias
    if layer.soft_cap is not None:
        scores = layer.soft_cap * np.tanh(scores / layer.soft_cap)
    return scores if layer.sink is None else scores - float64(layer.sink)[head].item()


def gru_step(cell, inputs, states):
    """One step of `keras.layers.GRUCell`: (output, states)."""
    (state,) = states
    bias = weight(cell, "bias")
    update, reset, new = np.split(inputs @ weight(cell, "kernel") + bias[0], 3, axis=-1)
    inner = np.split(state @ weight(cell, "recurrent_kernel") + bias[1], 3, axis=-1)
    update, reset = _sigmoid(update + inner[0]), _sigmoid(reset + inner[1])
    state = update * state + (1 - update) * np.tanh(new + reset * inner[2])
    return state, [state]


def lstm_step(cell, inputs, states):
    """One step of `keras.layers.LSTMCell`: (output, states)."""
    state, carry = states
    gates = inputs @ weight(cell, "kernel") + state @ weight(cell, "recurrent_kernel")
    enter, forget, new, leave = np.split(gates + weight(cell, "bias"), 4, axis=-1)
    carry = _sigmoid(forget) * carry + _sigmoid(enter) * np.tanh(new)
    state = _sigmoid(leave) * np.tanh(carry)
    return state, [state, carry]


CELL_STEPS = {"GRUCell": (gru_step, 1), "LSTMCell": (lstm_step, 2)}


def attention_rnn(layer, inputs, memory, initial_state, memory_mask=None, normalize=None):
    """Returns outputs and weights of the layer `AttentionRNN`, computed step by step.

    Args:
        normalize: As for `attention`.
    """
    cell = layer.cell
    move, number_of_states = CELL_STEPS[type(cell.cell).__name__]
    states = initial_state if isinstance(initial_state, list) else [initial_state]
    states = states + [np.zeros_like(states[0])] * (number_of_states - len(states))
    attend = multi_head_attention if hasattr(cell.attention, "key_dim") else attention

    def look(state):
        context, weights = attend(
            cell.attention,
            state[:, None, :],
            memory,
            value_mask=memory_mask,
            normalize=normalize,
        )
        gate = 1 / (1 + np.exp(-_dense(cell.gate, state))) if cell.gated else 1.0
        return gate * context[:, 0], weights[..., 0, :]

    outputs, history = [], []
    output = np.zeros((len(inputs), cell.output_size))
    for x in inputs.swapaxes(0, 1):
        if cell.order == "bahdanau":
            context, weights = look(states[0])
            state, states = move(cell.cell, np.concatenate([x, context], axis=-1), states)
            output = np.concatenate([state, context], axis=-1)
        elif cell.order == "conditional":
            between, states = move(cell.cell, x, states)
            context, weights = look(between)
            state, states = move(cell.second_cell, context, states)
            output = np.concatenate([state, context], axis=-1)
        else:
            state, states = move(cell.cell, np.concatenate([x, output], axis=-1), states)
            context, weights = look(state)
            output = np.tanh(_dense(cell.combine, np.concatenate([context, state], axis=-1)))
        outputs.append(output)
        history.append(weights)
    return np.stack(outputs, axis=1), np.stack(history, axis=-2)


def numerical_gradients(function, *arrays, step=1e-5):
    """Central differences of a function of float64 arrays that returns a scalar."""
    gradients = []
    for array in arrays:
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + step
            above = function(*arrays)
            array[index] = kept - step
            below = function(*arrays)
            array[index] = kept
            gradient[index] = (above - below) / (2 * step)
        gradients.append(gradient)
    return gradients


def _name(normalizer):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(normalizer).__name__).lower()  # Keras' snake case


def _heads(projection, x, heads):
    if projection is None:  # the score only reads its length
        return [x] * heads
    return np.split(_dense(projection, x), heads, axis=-1)


def _dense(layer, x):
    projected = x @ weight(layer, "kernel")
    return projected + weight(layer, "bias") if layer.use_bias else projected


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))
