"""Functions and classes of users as scores; scores in configs and files."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, normalizers, scores
from tests.attention import oracle
from tests.attention.saved import check_config
from tests.attention.score_cases import (
    BATCH,
    KEYS,
    QUERIES,
    RNG,
    SCORES,
    SIZE,
    random,
    randomize,
    tensor,
)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


# Functions


@keras.saving.register_keras_serializable(package="scores_test")
def manhattan(query, key):
    return -ops.sum(ops.abs(query[..., :, None, :] - key[..., None, :, :]), axis=-1)


@pytest.mark.parametrize("make", [Attention, lambda score: MultiHeadAttention(2, 3, score=score)])
def test_function_is_a_score(make):
    layer = make(manhattan)
    assert isinstance(getattr(layer, "attention", layer).score, scores.Function)
    x = random(BATCH, 3, SIZE).astype("float32")
    weights = layer(x, x, return_attention_scores=True, use_causal_mask=True)[1]
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-6)


def test_function_gives_what_it_returns():
    query, key = random(1, 2, 3), random(1, 4, 3)
    expected = -np.abs(query[:, :, None] - key[:, None]).sum(-1)
    found = scores.get(manhattan)(tensor(query), tensor(key))
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)
    found = scores.get(lambda query, key: manhattan(query, key))(tensor(query), tensor(key))
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-5)


def test_registered_function_survives_a_config_and_a_file(tmp_path):
    layer = Attention(manhattan)
    again = Attention.from_config(layer.get_config())
    assert again.score.function is manhattan
    x = keras.Input((3, SIZE))
    model = keras.Model(x, layer(x, x))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    inputs = random(1, 3, SIZE).astype("float32")
    np.testing.assert_allclose(
        loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0), atol=1e-6
    )


def test_config_of_a_function_is_a_score():
    config = keras.saving.serialize_keras_object(manhattan)
    assert scores.get(config).function is manhattan


# Classes


class OwnBuild(scores.Score):
    """Builds without the base class, as layers of Keras may."""

    def build(self, query_shape, key_shape):
        self.kernel = self.add_weight(name="kernel", shape=(query_shape[-1], key_shape[-1]))

    def pairwise(self, query, key):
        return ops.matmul(ops.matmul(query, self.kernel), ops.swapaxes(key, -1, -2))


@pytest.mark.parametrize("implementation", ["reference", "chunked"])
def test_a_score_may_build_without_its_base_class(implementation):
    query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")
    layer = Attention(OwnBuild(), implementation=implementation)
    context = layer(query, value)
    assert layer.choose_implementation(query.shape, value.shape) == implementation
    np.testing.assert_allclose(ops.convert_to_numpy(context), np.ones((2, 3, 6)), atol=1e-6)


# Configs

NORMAL = keras.initializers.HeNormal(seed=3)

EVERY_ARGUMENT = [
    (scores.Cosine, {"sharpness": 3.0, "learned_sharpness": True}),
    (
        scores.Additive,
        {"units": 3, "kernel_initializer": NORMAL, "normalized": True, "activation": "silu"},
    ),
    (scores.LinearAdditive, {"kernel_initializer": NORMAL, "activation": "leaky_relu"}),
    (scores.Trilinear, {"kernel_initializer": NORMAL}),
    (scores.Location, {"max_length": 9, "kernel_initializer": NORMAL}),
    (scores.DenseSynthesizer, {"max_length": 9, "units": 3, "kernel_initializer": NORMAL}),
    (scores.RandomSynthesizer, {"max_length": 9, "rank": 3, "kernel_initializer": NORMAL}),
    (scores.Euclidean, {"name": "near"}),
    (scores.Gaussian, {"width": 3.0, "learned_width": True}),
    (scores.Boxcar, {"width": 3.0}),
    (scores.Triangular, {"width": 3.0, "learned_width": True}),
    (scores.Epanechnikov, {"width": 3.0, "learned_width": True}),
    (scores.Function, {"function": manhattan}),
]


@pytest.mark.parametrize(("score_class", "arguments"), EVERY_ARGUMENT)
def test_every_argument_survives_a_config(score_class, arguments):
    check_config(score_class, arguments)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SCORES)
def test_weights_survive_a_file(name, tmp_path):
    query, value = keras.Input((QUERIES, SIZE)), keras.Input((KEYS, SIZE))
    layer = MultiHeadAttention(2, 3, score=SCORES[name](), normalizer=normalizers.Sigmoid())
    model = keras.Model([query, value], layer(query, value))
    randomize(model)
    inputs = [random(1, length, SIZE).astype("float32") for length in (QUERIES, KEYS)]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0), atol=1e-6
    )
