"""Transformer blocks that are recomputed in the backward pass."""

import keras
import numpy as np
import pytest

from keras_attention.transformer import DecoderBlock, EncoderBlock
from tests.attention import oracle
from tests.attention.blocks import (
    BATCH,
    ENCODED,
    LENGTH,
    RNG,
    SIZE,
    assert_all_close,
    decoder,
    embedded,
    encoder,
    random,
    some,
)

needs_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="is about TensorFlow"
)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def recomputed(make, **arguments):
    """The same block twice; the second one is recomputed in the backward pass."""
    plain = make(**arguments)
    with keras.RematScope(mode="full"):
        again = type(plain)(2, 12, **arguments)
    shape = (None, None, SIZE)
    again.build(shape) if make is encoder else again.build(shape, (None, None, 6))
    again.set_weights(plain.get_weights())
    return plain, again


def results(function, variables, *inputs, compiled=False):
    """The outputs of a function, and its gradients with respect to inputs and variables."""
    import tensorflow as tf

    def run(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = function(*inputs)
            loss = tf.reduce_sum(output**2)
        found = tape.gradient(loss, [*inputs, *(each.value for each in variables)])
        return [output, *map(tf.convert_to_tensor, found)]

    run = tf.function(run, autograph=False) if compiled else run
    return [oracle.float64(each) for each in run(*map(tf.constant, inputs))]


@pytest.mark.few(1)
@needs_tensorflow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize("make", [encoder, decoder])
def test_recomputed_blocks_have_the_same_outputs_and_gradients(make, normalize, compiled):
    plain, again = recomputed(make, normalize=normalize, position="t5")
    inputs = [random(BATCH, LENGTH, SIZE), random(BATCH, ENCODED, 6)]
    inputs = inputs[:1] if make is encoder else inputs
    mask = some(BATCH, LENGTH)
    expected = results(lambda *x: plain(*x, mask=mask), plain.trainable_variables, *inputs)
    found = results(
        lambda *x: again(*x, mask=mask), again.trainable_variables, *inputs, compiled=compiled
    )
    assert len(found) == 1 + len(inputs) + len(plain.trainable_variables)
    assert_all_close(found, expected, 1e-4)


@needs_tensorflow
@pytest.mark.parametrize("compiled", [False, True])
def test_function_that_recomputes_a_block_has_the_same_outputs_and_gradients(compiled):
    block, x = encoder(), random(BATCH, LENGTH, SIZE)
    weights = block.trainable_variables
    found = results(keras.remat(block), weights, x, compiled=compiled)
    assert_all_close(found, results(block, weights, x), 1e-4)


@needs_tensorflow
def test_recomputed_block_keeps_implicit_masks():
    plain, again = recomputed(decoder)
    x, encoded = embedded(np.array([[1, 2, 0]])), embedded(np.array([[3, 0, 4]]), 6)
    assert_all_close([again(x, encoded)], [oracle.float64(plain(x, encoded))], 1e-6)


@pytest.mark.few(1)
@needs_tensorflow
@pytest.mark.parametrize("compiled", [False, True])
def test_recomputed_block_drops_the_same_again(compiled):
    _, block = recomputed(encoder, dropout=0.4, attention_dropout=0.4)
    states = [each for each in block.non_trainable_variables if "seed" in each.path]
    first = [oracle.float64(each) for each in states]
    assert states

    def run(x):
        return block(x, training=True)

    def loss(x):
        for state, value in zip(states, first, strict=True):
            state.assign(value.astype("uint32"))
        return (oracle.float64(run(x)) ** 2).sum()

    x, direction = random(BATCH, LENGTH, SIZE), random(BATCH, LENGTH, SIZE)
    kept = loss(x)
    changed = [oracle.float64(each) for each in states]
    assert all((now != before).any() for now, before in zip(changed, first, strict=True))
    loss(x)
    for state, value in zip(states, first, strict=True):
        state.assign(value.astype("uint32"))
    output, gradient, *_ = results(run, block.trainable_variables, x, compiled=compiled)
    assert (output**2).sum() == pytest.approx(kept, rel=1e-5)
    step = 1e-3 * direction
    slope = (loss(x + step) - loss(x - step)) / 2
    assert slope == pytest.approx((gradient * step).sum(), rel=0.02)


@pytest.mark.full  # `recompute_test` trains blocks, too
@pytest.mark.few(1)
@pytest.mark.parametrize("make", [encoder, decoder])
def test_recomputed_block_trains(make):
    x, encoded = keras.Input((None, SIZE)), keras.Input((None, 6))
    with keras.RematScope(mode="full"):
        arguments = {"normalize": "pre", "dropout": 0.1, "attention_dropout": 0.1}
        if make is encoder:
            y = EncoderBlock(2, 12, **arguments)(x)
        else:
            y = DecoderBlock(2, 12, **arguments)(x, encoded)
    model = keras.Model([x, encoded], keras.layers.Dense(1)(y))
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    inputs = [random(16, LENGTH, SIZE), random(16, ENCODED, 6)]
    losses = model.fit(inputs, inputs[0][..., :1], epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
