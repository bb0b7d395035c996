"""GatedDeltaAttention against the gated delta rule in float64 NumPy, step by step.

`gated_delta_models_test.py` compares it with models of transformers.
"""

from unittest import mock

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import GatedDeltaAttention
from keras_attention.compute import delta
from tests.attention import oracle
from tests.attention.gradients import gradients

BATCH, HEADS, SIZE = 2, 4, 6
needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="is about the graphs of TensorFlow"
)
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rule(query, key, value, log_decay, strength=None, state=None):
    """Returns the contexts and the last state, one position after another."""
    contexts, sizes = [], (key.shape[-1], value.shape[-1])
    state = np.zeros((*key.shape[:2], *sizes)) if state is None else state
    for place in range(key.shape[2]):
        k, v = key[:, :, place, :, None], value[:, :, place, None, :]
        state = np.exp(log_decay[:, :, place, :, None]) * state
        if strength is not None:
            beta = strength[:, :, place, None, None]
            v = beta * (v - k.swapaxes(2, 3) @ state)
        state = state + k * v
        contexts.append((query[:, :, place, None] @ state)[:, :, 0])
    return np.stack(contexts, axis=2), state


def drawn(length, key_dim=5, value_dim=3, fastest=1.0, decays=1):
    """Returns arguments of the rule in float32, with keys of length 1 and some decays each."""
    query, key = random(2, BATCH, HEADS, length, key_dim)
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    value = random(BATCH, HEADS, length, value_dim)
    log_decay = -fastest * RNG.random((BATCH, HEADS, length, decays)).astype("float32") ** 4
    strength = 2 * RNG.random((BATCH, HEADS, length)).astype("float32")
    return query, key, value, log_decay, strength


def float64(arrays):
    return [array.astype("float64") for array in arrays]


@pytest.mark.few(8)
@pytest.mark.parametrize("length", [1, 5, delta.CHUNK, 2 * delta.CHUNK + 3])
@pytest.mark.parametrize("corrects", [True, False])
@pytest.mark.parametrize("decays", [1, 5])
def test_chunks_equal_the_rule(decays, corrects, length):
    given = drawn(length, decays=decays)[: 5 if corrects else 4]
    before = random(BATCH, HEADS, 5, 3)
    tensors = list(map(ops.convert_to_tensor, given))
    found = delta.attend(*tensors, before=ops.convert_to_tensor(before))
    expected = rule(*float64(given), state=before.astype("float64"))
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), other, atol=2e-5)
    weights = oracle.float64(delta.weights(tensors[0], tensors[1], *tensors[3:]))
    np.testing.assert_allclose(weights @ given[2], rule(*float64(given))[0], atol=2e-5)
    np.testing.assert_array_equal(np.triu(weights, 1), 0.0)


@pytest.mark.parametrize("floatx", ["float64", "float16"])
def test_the_rule_is_in_float32_whatever_floatx_is(floatx):
    arguments, before = drawn(5), keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        found, _ = delta.attend(*arguments)
        weights = delta.weights(*arguments[:2], *arguments[3:])
    finally:
        keras.config.set_floatx(before)
    expected, _ = rule(*float64(arguments))
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)
    of_weights = oracle.float64(weights) @ float64(arguments)[2]
    np.testing.assert_allclose(of_weights, expected, atol=1e-5)


@pytest.mark.parametrize("corrects", [True, False])
@pytest.mark.parametrize("decays", [1, 5])
def test_gradients_equal_finite_differences_of_the_rule(decays, corrects):
    given = [array[:1, :1] for array in drawn(7, decays=decays)][: 5 if corrects else 4]

    def total(*arrays):
        contexts, state = rule(*arrays)
        return (contexts**2).sum() + state.sum()

    def function(*tensors):
        context, state = delta.attend(*tensors)
        return ops.sum(ops.square(context)) + ops.sum(state)

    with mock.patch.object(delta, "CHUNK", 3):
        found = gradients(function, *given)
    for gradient, difference in zip(
        found, oracle.numerical_gradients(total, *float64(given)), strict=True
    ):
        np.testing.assert_allclose(oracle.float64(gradient), difference, rtol=1e-3, atol=1e-4)


@needs_tensorflow
@pytest.mark.full
@pytest.mark.parametrize("decays", [1, 5])
def test_xla_differentiates_a_loop_of_unknown_length(decays):
    import tensorflow as tf

    def slopes(*given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            total = tf.reduce_sum(delta.attend(*given)[0] ** 2)
        return tape.gradient(total, given)

    given = [tf.constant(array) for array in drawn(2 * delta.CHUNK + 3, decays=decays)]
    shapes = [(None, HEADS, None, *array.shape[3:]) for array in given]
    signature = [tf.TensorSpec(shape) for shape in shapes]
    found = tf.function(slopes, signature, jit_compile=True)(*given)
    for each, other in zip(found, slopes(*given), strict=True):
        np.testing.assert_allclose(each, other, rtol=1e-3, atol=1e-3)


@pytest.mark.few(1)
@needs_tensorflow
@pytest.mark.parametrize("decays", [1, 5])
def test_the_gradient_has_a_gradient(decays):
    import tensorflow as tf

    query, key, value, log_decay, strength = map(tf.constant, drawn(7, decays=decays))
    direction = tf.constant(random(*key.shape))

    def slope(key):
        with tf.GradientTape() as tape:
            tape.watch(key)
            context, _ = delta.attend(query, key, value, log_decay, strength)
            total = tf.reduce_sum(context**2)
        return tape.gradient(total, key)

    with mock.patch.object(delta, "CHUNK", 3):
        with tf.GradientTape() as tape:
            tape.watch(key)
            along = tf.reduce_sum(slope(key) * direction)
        found = tape.gradient(along, key)
        sides = [slope(key + step * direction) for step in (0.01, -0.01)]
    expected = (sides[0] - sides[1]) / 0.02
    np.testing.assert_allclose(found, expected, atol=0.01 * np.abs(expected).max())


@pytest.mark.full
@pytest.mark.parametrize(
    ("fastest", "decays"),
    [
        (0.001, 1),
        (40.0, 5),
        *(
            pytest.param(*each, marks=pytest.mark.full)
            for each in [(1.0, 1), (40.0, 1), (0.001, 5)]
        ),
    ],
)
def test_two_thousand_positions(fastest, decays):
    """The logarithm of the product of all decays is about -0.4, -400 or -16,000."""
    given = [array[:1, :2] for array in drawn(2000, fastest=fastest, decays=decays)]
    given[-1] /= 2
    found = delta.attend(*map(ops.convert_to_tensor, given))
    expected = rule(*float64(given))
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), other, atol=1e-4, rtol=1e-4)
    slopes = gradients(lambda *given: delta.attend(*given)[0], *given)
    assert all(np.isfinite(oracle.float64(slope)).all() for slope in slopes)


@pytest.mark.parametrize("corrects", [True, False])
@pytest.mark.parametrize("decays", [1, 5])
def test_decays_of_any_strength(decays, corrects):
    """Those that forget everything, even together, round those between them by 1e-4 at most."""
    given = list(drawn(delta.CHUNK + 9, decays=decays))
    given[3] = RNG.choice([0.0, -0.1, -3.0, -20.0, -1e4, -1e30], given[3].shape).astype("float32")
    given = given[: 5 if corrects else 4]
    found = delta.attend(*map(ops.convert_to_tensor, given))
    for each, other in zip(found, rule(*float64(given)), strict=True):
        np.testing.assert_allclose(oracle.float64(each), other, atol=1e-3, rtol=1e-3)
    slopes = gradients(lambda *given: delta.attend(*given)[0], *given)
    assert all(np.isfinite(oracle.float64(slope)).all() for slope in slopes)


def test_it_remembers_what_was_written_last_for_a_key():
    """Where the sum of linear attention has both values of a key, the rule has the second."""
    key = np.eye(3, dtype="float32")[[0, 1, 2, 1]][None, None]
    value = random(1, 1, 4, 2)
    always, fully = np.zeros((1, 1, 4, 1), "float32"), np.ones((1, 1, 4), "float32")
    given = [ops.convert_to_tensor(x) for x in (key, key, value, always, fully)]
    _, state = delta.attend(*given)
    np.testing.assert_allclose(oracle.float64(state)[0, 0], value[0, 0, [0, 3, 2]], atol=1e-6)
    _, state = delta.attend(*given[:4])
    added = value[0, 0, [0, 1, 2]] + value[0, 0, [3]] * [[0], [1], [0]]
    np.testing.assert_allclose(oracle.float64(state)[0, 0], added, atol=1e-6)


def make(layer_class=GatedDeltaAttention, **arguments):
    """A built layer whose weights are all perturbed."""
    layer = layer_class(HEADS, 5, value_dim=3, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def heads_of(x, size):
    """(batch, length, heads · size) -> (batch, heads, length, size)."""
    return x.reshape(*x.shape[:2], -1, size).swapaxes(1, 2)


def convolved(layer, x):
    """Returns SiLU of the convolution of each position with those before it."""
    total = x
    if layer.kernel_size is not None:
        kernel = oracle.float64(layer.convolution.kernel)
        total = np.zeros_like(x)
        for place in range(x.shape[1]):
            for back in range(min(layer.kernel_size, place + 1)):
                total[:, place] += x[:, place - back] * kernel[-1 - back]
    return total * sigmoid(total)


def projected_from_latent(layer, name, x):
    """Returns a projection, which is one of low rank if the layer has another one before it."""
    latent = getattr(layer, f"{name}_latent_projection", None)
    x = x if latent is None else oracle._dense(latent, x)
    return oracle._dense(getattr(layer, f"{name}_projection"), x)


def equation(layer, query, value, visible, activation=lambda x: x * sigmoid(x)):
    """Returns the output, and the contexts and values of the heads."""
    query, value = (np.where(visible[:, :, None], x, 0.0) for x in (query, value))
    projected = [
        oracle._dense(getattr(layer, f"{name}_projection"), x) * visible[:, :, None]
        for name, x in (("query", query), ("key", value), ("value", value))
    ]
    mixed = convolved(layer, np.concatenate(projected, axis=-1))
    parts = np.split(mixed, np.cumsum([part.shape[-1] for part in projected])[:-1], axis=-1)
    q, k, v = (heads_of(part, size) for part, size in zip(parts, (5, 5, 3), strict=True))
    q, k = (x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    q, k = (np.repeat(x, HEADS // layer.num_key_heads, axis=1) for x in (q, k))
    beta = layer.max_strength * sigmoid(oracle._dense(layer.strength_projection, value))
    beta = np.where(visible[:, :, None], beta, 0.0).swapaxes(1, 2)
    log_decay = np.zeros((*beta.shape, 1))
    if layer.use_decay:
        step = projected_from_latent(layer, "decay", value) + oracle.float64(layer.decay_bias)
        rate = np.exp(oracle.float64(layer.log_decay_rate))[:, None, None]
        log_decay = -rate * heads_of(np.log1p(np.exp(step)), step.shape[-1] // HEADS)
    log_decay = np.where(visible[:, None, :, None], log_decay, 0.0)
    contexts, _ = rule(q / np.sqrt(5), k, v, log_decay, beta)
    contexts = np.where(visible[:, None, :, None], contexts, 0.0)
    heads = contexts / np.sqrt((contexts**2).mean(-1, keepdims=True) + layer.epsilon)
    heads = heads * oracle.float64(layer.norm.scale)
    if layer.use_gate:
        gate = projected_from_latent(layer, "output_gate", query)
        heads = heads * activation(heads_of(gate, 3))
    joined = heads.swapaxes(1, 2).reshape(*query.shape[:2], -1)
    return oracle._dense(layer.output_projection, joined), contexts, v


OPTIONS = {
    "all": {},
    "DeltaNet": {"use_decay": False, "use_gate": False, "use_bias": False},
    "no convolution": {"kernel_size": None, "max_strength": 2.0},
    "convolution of one": {"kernel_size": 1, "use_decay": False},
    "grouped heads": {"num_key_heads": 2, "kernel_size": 2, "output_dim": 7, "epsilon": 0.01},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_equals_its_equation(name):
    check_equation(make(**OPTIONS[name]))


def check_equation(layer, **given):
    x, y = random(2, BATCH, delta.CHUNK + 3, SIZE)
    hidden = RNG.random((3, BATCH, delta.CHUNK + 3)) < 0.1
    masks = dict(zip(("query_mask", "value_mask", "key_mask"), ~hidden, strict=True))
    visible = ~hidden.any(0)
    expected, contexts, values = equation(layer, *float64((x, y)), visible, **given)
    output, weights = layer(x, y, return_attention_scores=True, **masks)
    np.testing.assert_allclose(oracle.float64(output), expected, atol=1e-4)
    np.testing.assert_allclose(oracle.float64(weights) @ values, contexts, atol=2e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(side):
    layer, x, junk = make(), random(BATCH, 9, SIZE), random(BATCH, 5, SIZE)
    parts = [(junk, False), (x, True)] if side == "left" else [(x, True), (junk, False)]
    padded = np.concatenate([part for part, _ in parts], axis=1)
    mask = np.concatenate([np.full(part.shape[:2], seen) for part, seen in parts], axis=1)
    found = layer(padded, padded, value_mask=mask)
    expected = oracle.float64(layer(x, x))
    np.testing.assert_allclose(
        oracle.float64(found)[mask].reshape(expected.shape), expected, atol=1e-5
    )


def test_decays_start_between_slow_and_fast():
    keras.utils.set_random_seed(0)
    layer = GatedDeltaAttention(1000, 1)
    layer.build((None, None, 2), (None, None, 2))
    rate = np.exp(oracle.float64(layer.log_decay_rate))
    step = np.log1p(np.exp(oracle.float64(layer.decay_bias)))
    assert 0.01 <= rate.min() < 0.2 < 15.8 < rate.max() <= 16.0
    assert 0.000999 < step.min() < 0.00105 < 0.095 < step.max() < 0.1001
    assert abs(np.median(np.log10(step)) + 2) < 0.1


@needs_tensorflow
@pytest.mark.full
def test_it_may_be_built_inside_of_a_graph():
    import tensorflow as tf

    layer, x = GatedDeltaAttention(2, 4), random(BATCH, 5, SIZE)
    found = tf.function(lambda x: layer(x, x))(tf.constant(x))
    np.testing.assert_allclose(found, layer(x, x), atol=1e-5)
