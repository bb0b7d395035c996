"""SlotAttention against algorithm 1 of its paper in float64."""

import keras
import numpy as np
import pytest

from keras_attention import SlotAttention
from tests.attention import oracle
from tests.attention.mistakes import check_message
from tests.attention.saved import check_config

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 6, 4)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]], bool)


def assert_close(found, expected, atol=1e-5):
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=atol)


def varied(layer):
    """Builds a layer with random weights, also for biases and norms."""
    layer.build(X.shape)
    for number, weight in enumerate(layer.trainable_weights):
        weight.assign(np.random.default_rng(number).normal(0, 0.5, weight.shape))
    return layer


def algorithm(layer, x, visible):
    """Algorithm 1 of Locatello et al. for one set, with the GRU of Cho et al. as in cuDNN."""
    weight = {each.path.split("/", 1)[-1]: oracle.float64(each) for each in layer.weights}

    def norm(name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3)
        return x * weight[f"{name}/gamma"] + weight[f"{name}/beta"]

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    x = norm("input_norm", np.where(visible[:, None], x, 0))
    key, value = x @ weight["key/kernel"], x @ weight["value/kernel"]
    slots = weight["first"]
    for _ in range(layer.num_iterations):
        query = norm("slot_norm", slots) @ weight["query/kernel"]
        powers = np.exp(query @ key.T / np.sqrt(query.shape[-1]))
        weights = powers / powers.sum(0) * visible
        shares = (weights + layer.epsilon) * visible
        won = shares / np.maximum(shares.sum(-1, keepdims=True), 1e-30) @ value
        of_input = won @ weight["recurrence/kernel"] + weight["recurrence/bias"][0]
        of_state = slots @ weight["recurrence/recurrent_kernel"] + weight["recurrence/bias"][1]
        (z, r, h), (z_, r_, h_) = np.split(of_input, 3, -1), np.split(of_state, 3, -1)
        z, r = sigmoid(z + z_), sigmoid(r + r_)
        slots = z * slots + (1 - z) * np.tanh(h + r * h_)
        hidden = norm("feed_forward_norm", slots) @ weight["feed_forward/inner/kernel"]
        hidden = np.maximum(hidden + weight["feed_forward/inner/bias"], 0)
        slots = slots + hidden @ weight["feed_forward/outer/kernel"]
        slots = slots + weight["feed_forward/outer/bias"]
    return slots, weights


@pytest.mark.parametrize("visible", [None, MASK], ids=["all", "padding"])
def test_equals_the_algorithm(visible):
    layer = varied(SlotAttention(3, 5, num_iterations=2, learned_slots=True, epsilon=0.01))
    slots, weights = layer(X, mask=visible, return_attention_scores=True)
    rows = np.ones_like(MASK) if visible is None else visible
    for row in range(len(X)):
        expected = algorithm(layer, X[row], rows[row])
        assert_close(slots[row], expected[0])
        assert_close(weights[row], expected[1])
    assert_close(layer(X, mask=visible), slots)


def test_drawn_slots_have_the_learned_mean_and_deviation():
    layer = varied(SlotAttention(1000, seed=1))
    drawn = oracle.float64(layer._first_slots(20)).reshape(-1, 4)
    assert_close(drawn.mean(0), layer.mean[0], atol=0.05)
    assert_close(np.log(drawn.std(0)), layer.log_deviation[0], atol=0.02)
    first, second = varied(SlotAttention(2, seed=1)), varied(SlotAttention(2, seed=1))
    slots = first(X)
    assert_close(second(X), slots, atol=0)
    assert np.abs(oracle.float64(first(X)) - oracle.float64(slots)).max() > 0.1  # drawn anew


def test_the_order_of_the_set_does_not_count():
    layer = varied(SlotAttention(3, 5, learned_slots=True))
    order = RNG.permutation(6)
    slots, weights = layer(X, return_attention_scores=True)
    found, of_found = layer(X[:, order], return_attention_scores=True)
    assert_close(found, slots)
    assert_close(of_found, oracle.float64(weights)[..., order])


def test_padding_does_not_count_not_even_nan():
    layer = varied(SlotAttention(3, learned_slots=True))
    longer = np.where(MASK[:2, :, None], X[:2], np.nan).astype("float32")
    found, weights = layer(longer, mask=MASK[:2], return_attention_scores=True)
    assert_close(found[1], layer(X[1:2][:, MASK[1]])[0])
    assert_close(oracle.float64(weights).sum(1), MASK[:2])
    tokens = np.array([[5, 7, 0, 0]])
    embedded = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    slots = layer(embedded)
    assert_close(slots, layer(embedded[:, :2]))
    assert getattr(slots, "_keras_mask", None) is None


def test_more_slots_take_the_weights_of_fewer():
    trained, more = varied(SlotAttention(2, 5)), SlotAttention(7, 5)
    more.build(X.shape)
    more.set_weights(trained.get_weights())
    assert tuple(more(X).shape) == more.compute_output_shape(X.shape) == (3, 7, 5)


@pytest.mark.full
def test_slots_learn_to_hold_one_part_each():
    """Sets of copies of two of four vectors: a slot has to tell which of them it has won."""
    rng = np.random.default_rng(0)
    parts = np.array([rng.permutation(4)[:2] for _ in range(256)])
    x = np.eye(4, dtype="float32")[np.repeat(parts, 4, axis=1)]  # (256, 8, 4)
    inputs = keras.Input((8, 4))
    layer = SlotAttention(2, 8, learned_slots=True)
    model = keras.Model(inputs, keras.layers.Dense(4, activation="softmax")(layer(inputs)))

    def of_best_order(true, predicted):
        losses = [
            keras.ops.mean(keras.losses.categorical_crossentropy(each, predicted), axis=-1)
            for each in (true, keras.ops.flip(true, axis=1))
        ]
        return keras.ops.minimum(*losses)

    model.compile(keras.optimizers.Adam(0.03), of_best_order, jit_compile=False)
    model.fit(x, np.eye(4)[parts], epochs=6, batch_size=32, verbose=0)
    told = np.sort(model.predict(x, verbose=0).argmax(-1), axis=1)
    assert np.mean(told == np.sort(parts, axis=1)) > 0.95
    _, weights = layer(x, return_attention_scores=True)
    owner = oracle.float64(weights).argmax(1)  # the slot that has most of each vector
    assert np.mean([len({*row[:4]}) == len({*row[4:]}) == 1 for row in owner]) > 0.95


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16", "bfloat16"])
def test_half_precision(dtype):
    whole = varied(SlotAttention(3, 5, learned_slots=True))
    half = SlotAttention(3, 5, learned_slots=True, dtype=dtype)
    half.build(X.shape)
    half.set_weights(whole.get_weights())
    slots, weights = half(X, mask=MASK, return_attention_scores=True)
    assert keras.backend.standardize_dtype(slots.dtype) == half.compute_dtype
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    assert_close(slots, whole(X, mask=MASK), atol=0.1)


def test_config():
    check_config(SlotAttention, {"num_slots": 3, "slot_size": 5, "num_iterations": 2})
    check_config(SlotAttention, {"num_slots": 3, "hidden": 7, "learned_slots": True})
    check_config(SlotAttention, {"num_slots": 3, "epsilon": 0.1, "seed": 4})


def test_errors():
    check_message(lambda: SlotAttention(0), ["`num_slots` of SlotAttention", "0"])
    check_message(lambda: SlotAttention(2, hidden=-1), ["`hidden` of SlotAttention", "-1"])
    check_message(lambda: SlotAttention(2, epsilon=0), ["`epsilon` of SlotAttention", "0"])
    check_message(
        lambda: SlotAttention(2)(np.ones((2, 3, 4, 5))),
        ["SlotAttention needs", "(2, 3, 4, 5)", "Reshape((height * width, channels))"],
    )
    layer = SlotAttention(2)
    layer(X)
    check_message(lambda: layer(X, None, False, "more"), ["positional arguments"])
    check_message(lambda: layer(X[0]), ["SlotAttention needs sequences", f"shape {X[0].shape}"])
    check_message(
        lambda: SlotAttention(2)(X, mask=np.ones((3, 5), bool)),
        ["`mask` of SlotAttention", "(3, 5)"],
    )
