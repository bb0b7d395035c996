"""ShowAttendTell against the equations of the paper in float64 NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.attention import oracle
from zoo.models.show_attend_tell import BASELINE_MOMENTUM, ShowAttendTell

VOCABULARY, CHANNELS, POSITIONS, SIZE, UNITS, BATCH, LENGTH = 7, 5, 4, 6, 3, 2, 3
RNG = np.random.default_rng(0)
INPUTS = {
    "annotations": RNG.normal(size=(BATCH, POSITIONS, CHANNELS)).astype("float32"),
    "target_ids": np.array([[1, 3, 4], [1, 5, 0]], "int32"),
}
LABELS = np.array([[3, 4, 2], [5, 2, 0]], "int32")
IS_WORD = np.array([[1, 1, 1], [1, 1, 0]], "float32")
EVEN = np.full((BATCH, LENGTH, POSITIONS), 1 / POSITIONS, "float32")


def make(**arguments):
    """A model whose weights are all random, biases included."""
    model = ShowAttendTell(
        VOCABULARY, channels=CHANNELS, size=SIZE, units=UNITS, **{"dropout": 0.0, **arguments}
    )
    model.build()
    for variable in model.trainable_weights:
        variable.assign(0.7 * RNG.normal(size=variable.shape))
    return model


def dense(layer, x):
    return x @ oracle.weight(layer, "kernel") + oracle.weight(layer, "bias")


def by_hand(model):
    """Returns logits and weights."""
    table = oracle.float64(model.embedding.embeddings)
    annotations = np.maximum(dense(model.annotate, INPUTS["annotations"]), 0.0)
    mean = annotations.mean(axis=1)
    states = [np.tanh(dense(each, mean)) for each in (model.initial_hidden, model.initial_memory)]
    embedded = table[INPUTS["target_ids"]] * np.sqrt(SIZE)
    outputs, weights = oracle.attention_rnn(model.decoder, embedded, annotations, states)
    readout = dense(model.readout, np.concatenate([embedded, outputs], axis=-1))
    return readout @ table.T + oracle.float64(model.output_bias), weights


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_equals_the_equations(attention):
    model = make(attention=attention)
    outputs = model(INPUTS)
    logits, weights = by_hand(model)
    np.testing.assert_allclose(oracle.float64(outputs["logits"]), logits, atol=1e-4)
    np.testing.assert_allclose(oracle.float64(outputs["weights"]), weights, atol=1e-5)
    assert len(np.unique(weights.argmax(-1))) > 1


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_several_captions_of_an_image_lie_side_by_side(attention):
    model, ids = make(attention=attention), INPUTS["target_ids"][[1, 0, 0, 0, 1, 1]]
    repeated = np.repeat(INPUTS["annotations"], 3, axis=0)
    expected = model({"annotations": repeated, "target_ids": ids})
    found = model({**INPUTS, "target_ids": ids})
    tf.nest.map_structure(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), found, expected)


def test_there_may_be_no_image():
    """The last batch of an epoch may have none for one of several devices."""
    specs = {
        "annotations": tf.TensorSpec([None, POSITIONS, CHANNELS]),
        "target_ids": tf.TensorSpec([None, LENGTH], tf.int32),
    }
    call = tf.function(make(), input_signature=[specs], autograph=False)
    none = {name: tf.constant(each[:0]) for name, each in INPUTS.items()}
    assert call(none)["logits"].shape == (0, LENGTH, VOCABULARY)


def test_half_precision_gives_nearly_the_same():
    model, half = make(), make(dtype="bfloat16")
    half.set_weights(model.get_weights())
    np.testing.assert_allclose(half(INPUTS)["logits"], model(INPUTS)["logits"], atol=0.1)


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_step_by_step_equals_teacher_forcing(attention):
    model = make(attention=attention)
    outputs = model(INPUTS)
    context, state = model.start(INPUTS["annotations"], LENGTH)
    for now, words in enumerate(INPUTS["target_ids"].T):
        logits, state, weights = model.step(tf.constant(words), state, context)
        np.testing.assert_allclose(logits, outputs["logits"][:, now], atol=1e-5)
        np.testing.assert_allclose(weights, outputs["weights"][:, now], atol=1e-6)


def test_scores_of_hard_attention_are_those_that_it_chose_by():
    hard, soft = make(attention="hard"), make(attention="soft")
    soft.set_weights([each.numpy() for each in hard.trainable_weights])
    outputs = hard(INPUTS)
    np.testing.assert_array_equal(
        np.argmax(outputs["scores"], axis=-1), np.argmax(outputs["weights"], axis=-1)
    )
    # Before the first word both are in the same state, so soft attention shows the softmax.
    np.testing.assert_allclose(
        tf.nn.softmax(outputs["scores"][:, 0]), soft(INPUTS)["weights"][:, 0], atol=1e-6
    )


def test_hard_attention_draws_in_training_only():
    model = make(attention="hard", seed=3)
    many = {name: np.repeat(each[:1], 400, axis=0) for name, each in INPUTS.items()}
    drawn = oracle.float64(model(many, training=True)["weights"])
    np.testing.assert_array_equal(np.unique(drawn), [0.0, 1.0])
    np.testing.assert_array_equal(drawn.sum(-1), 1.0)
    expected = tf.nn.softmax(model(INPUTS)["scores"][0, 0])
    np.testing.assert_allclose(drawn[:, 0].mean(axis=0), expected, atol=0.1)


def test_doubly_stochastic_penalty():
    model = make(doubly_stochastic=0.3)
    weights = RNG.dirichlet(np.ones(POSITIONS), size=(BATCH, LENGTH))
    looked_at = (weights * IS_WORD[:, :, None]).sum(axis=1)
    expected = 0.3 * np.square(1 - looked_at).sum() / IS_WORD.sum()
    loss = model.attention_loss({"weights": weights.astype("float32")}, LABELS, IS_WORD)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    none = make(doubly_stochastic=0.0).attention_loss({"weights": EVEN}, LABELS, IS_WORD)
    assert float(none) == 0.0


def test_reinforce():
    model = make(attention="hard", entropy=0.2)
    model.baseline.assign(-1.5)
    scores = RNG.normal(size=(BATCH, LENGTH, POSITIONS))
    drawn = np.eye(POSITIONS)[RNG.integers(POSITIONS, size=(BATCH, LENGTH))]
    logits = RNG.normal(size=(BATCH, LENGTH, VOCABULARY))
    log_probs = np.log(oracle.softmax(logits, np.ones_like(logits, bool)))
    of_words = np.take_along_axis(log_probs, LABELS[:, :, None], axis=-1)[:, :, 0]
    rewards = np.zeros((BATCH, LENGTH))
    for row in range(BATCH):
        for now in range(LENGTH):
            for later in range(now, LENGTH):
                rewards[row, now] += IS_WORD[row, later] * (of_words[row, later] + 1.5)

    def loss_of(scores):
        log_weights = np.log(oracle.softmax(scores, np.ones_like(scores, bool)))
        entropies = -(np.exp(log_weights) * log_weights).sum(-1)
        told = rewards * (drawn * log_weights).sum(-1) + 0.2 * entropies
        return -(told * IS_WORD).sum() / IS_WORD.sum()

    outputs = {"scores": scores, "weights": drawn, "logits": logits}
    outputs = {name: tf.constant(each, tf.float32) for name, each in outputs.items()}
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = model.attention_loss(outputs, LABELS, IS_WORD)
    found = tape.gradient(loss, outputs, unconnected_gradients="zero")
    np.testing.assert_allclose(loss, loss_of(scores), rtol=1e-5)
    (expected,) = oracle.numerical_gradients(loss_of, scores)
    np.testing.assert_allclose(found["scores"], expected, atol=1e-6)
    np.testing.assert_array_equal(found["logits"], 0.0)  # words are not learned from the reward
    mean = (of_words * IS_WORD).sum() / IS_WORD.sum()
    expected_baseline = BASELINE_MOMENTUM * -1.5 + (1 - BASELINE_MOMENTUM) * mean
    np.testing.assert_allclose(model.baseline.numpy(), expected_baseline, rtol=1e-5)


def test_nothing_depends_on_padding():
    model = make(attention="hard")
    zeros = np.zeros((BATCH, LENGTH, VOCABULARY), "float32")
    outputs = {"scores": EVEN, "weights": EVEN, "logits": zeros}
    other = {name: each.copy() for name, each in outputs.items()}
    for each in other.values():
        each[1, 2] = RNG.normal(size=each.shape[-1])
    losses = []
    for told in (outputs, other):
        model.baseline.assign(0.0)
        losses.append(float(model.attention_loss(told, LABELS, IS_WORD)))
    assert losses[0] == losses[1]


def test_every_argument_survives_a_config(tmp_path):
    model = make(attention="hard", doubly_stochastic=0.5, entropy=0.1, dropout=0.2, seed=4)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.config == model.config
    for found, expected in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_unknown_attention_is_refused():
    with pytest.raises(ValueError, match=r"must be 'soft' or 'hard'. Received: 'firm'"):
        make(attention="firm")
