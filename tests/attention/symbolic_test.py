"""What Keras infers symbolically: shapes, masks, warnings."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionRNN,
    Coverage,
    CrossCovarianceAttention,
    EncoderBlock,
    FeedForward,
    GatedDeltaAttention,
    GatedLinearAttention,
    GaussianMixtureAttention,
    KimiDeltaAttention,
    LatentAttention,
    LinearAttention,
    LinformerAttention,
    LocalAttention,
    LongformerAttention,
    MultiHeadAttention,
    NystromAttention,
    PerformerAttention,
    ReformerAttention,
    RetentionAttention,
    alignments,
    positions,
)

pytestmark = pytest.mark.filterwarnings("error::UserWarning")

LAYERS = {
    "Attention": lambda: Attention("additive"),
    "MultiHeadAttention": lambda: MultiHeadAttention(2, 4, score="general", output_dim=7),
    "LatentAttention": lambda: LatentAttention(2, 4, latent_dim=6, rotary_dim=2),
    "AttentionRNN, bahdanau": lambda: AttentionRNN(
        AttentionCell(keras.layers.GRUCell(8), MultiHeadAttention(2, 4))
    ),
    "AttentionRNN, luong": lambda: AttentionRNN(
        AttentionCell(keras.layers.LSTMCell(8), "general", order="luong")
    ),
    "AttentionRNN, alignment": lambda: AttentionRNN(
        AttentionCell(keras.layers.GRUCell(8), alignment=alignments.Monotonic(initial_bias=1.0))
    ),
    "AttentionRNN, places": lambda: AttentionRNN(
        AttentionCell(keras.layers.GRUCell(8), GaussianMixtureAttention(2, 4))
    ),
    "AttentionRNN, coverage": lambda: AttentionRNN(
        AttentionCell(keras.layers.GRUCell(8), MultiHeadAttention(2, 4), coverage=Coverage(2, 3))
    ),
}


OTHERS = {
    "Attention, chunked": lambda: Attention("additive", implementation="chunked", dropout=0.1),
    "LocalAttention, predictive": lambda: LocalAttention("predictive", 2),
    "LocalAttention, monotonic": lambda: LocalAttention("monotonic", 2),
    "LinearAttention": lambda: LinearAttention(2, 4),
    "PerformerAttention": lambda: PerformerAttention(2, 4),
    "LongformerAttention": lambda: LongformerAttention(2, 4, window=2),
    "CrossCovarianceAttention": lambda: CrossCovarianceAttention(2, 4),
    "ReformerAttention": lambda: ReformerAttention(2, 4, bucket_size=2),
    "GatedDeltaAttention": lambda: GatedDeltaAttention(2, 4),
    "RetentionAttention": lambda: RetentionAttention(2, 4),
    "GatedLinearAttention": lambda: GatedLinearAttention(2, 4),
    "KimiDeltaAttention": lambda: KimiDeltaAttention(2, 4),
    "GaussianMixtureAttention": lambda: GaussianMixtureAttention(2, 4),
}


@pytest.fixture
def floatx(request):
    """Sets Keras' default dtype during a test."""
    if (keras.backend.backend(), request.param) == ("jax", "float64"):
        pytest.skip("JAX has no float64 unless it is asked to")
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx(request.param)
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


def assert_compatible(symbolic, shape):
    """Checks that all known sizes of a symbolic shape are right."""
    assert len(symbolic) == len(shape)
    assert all(size in (None, real) for size, real in zip(symbolic, shape, strict=True))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("lengths", [(None, None), (3, None), (3, 6)])
def test_symbolic_shapes_equal_real_shapes(name, lengths):
    query = keras.Input((lengths[0], 5))
    memory = keras.Input((lengths[1], 4))
    outputs = LAYERS[name]()(query, memory, return_attention_scores=True)
    model = keras.Model([query, memory], outputs)
    real = model([np.ones((2, 3, 5)), np.ones((2, 6, 4))])
    for symbolic, tensor in zip(outputs, real, strict=True):
        assert_compatible(symbolic.shape, tuple(tensor.shape))
    assert outputs[0].shape[-1] == real[0].shape[-1]
    assert outputs[1].shape[-2:] == lengths


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LAYERS)
def test_functional_model_equals_the_layer(name):
    layer = LAYERS[name]()
    query, memory = keras.Input((None, 5)), keras.Input((None, 4))
    model = keras.Model([query, memory], layer(query, memory))
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 6, 4))]
    np.testing.assert_allclose(
        model.predict(inputs, verbose=0), np.asarray(layer(*inputs)), atol=1e-5
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LAYERS)
def test_output_carries_the_mask_of_the_first_input(name):
    tokens, source = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embed = keras.layers.Embedding(9, 5, mask_zero=True)
    context, _ = LAYERS[name]()(embed(tokens), embed(source), return_attention_scores=True)
    pooled = keras.layers.GlobalAveragePooling1D()(context)
    model = keras.Model([tokens, source], [context, pooled])
    inputs = [np.array([[1, 2, 0], [3, 0, 0]]), np.array([[4, 5, 6, 0], [7, 0, 0, 0]])]
    context, pooled = map(keras.ops.convert_to_numpy, model(inputs))
    np.testing.assert_allclose(pooled[0], context[0, :2].mean(0), atol=1e-5)
    np.testing.assert_allclose(pooled[1], context[1, 0], atol=1e-5)


@pytest.mark.full
@pytest.mark.few(1)
@pytest.mark.parametrize("name", LAYERS)
def test_trains_in_a_functional_model(name):
    query, memory = keras.Input((None, 5)), keras.Input((None, 4))
    model = keras.Model([query, memory], keras.layers.Dense(1)(LAYERS[name]()(query, memory)))
    model.compile("adam", "mse", jit_compile=False)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(4, 3, 5)), rng.normal(size=(4, 6, 4))]
    history = model.fit(inputs, np.ones((4, 3, 1)), epochs=10, verbose=0).history["loss"]
    assert history[-1] < history[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("floatx", ["float64", "float16"], indirect=True)
@pytest.mark.parametrize("name", [*LAYERS, *OTHERS])
def test_trains_whatever_floatx_is(name, floatx):
    layer = {**LAYERS, **OTHERS}[name]()
    x = np.random.default_rng(0).normal(size=(4, 6, 5))
    inputs = keras.Input((None, 5))
    has_causal = not name.startswith(("AttentionRNN", "Cross", "Longformer"))
    causal = {"use_causal_mask": True} if has_causal else {}
    model = keras.Model(inputs, layer(inputs, inputs, **causal))
    model.compile("sgd", "mse")
    history = model.fit(x, model.predict(x, verbose=0) + 1, epochs=2, verbose=0).history["loss"]
    assert np.isfinite(history).all()
    if keras.backend.backend() == "tensorflow":  # others convert float64 to float32
        assert keras.backend.standardize_dtype(layer(x, x, **causal).dtype) == floatx


@pytest.mark.parametrize(
    "make", [lambda: EncoderBlock(2, 8), lambda: FeedForward(8)], ids=["encoder", "feed_forward"]
)
def test_output_shapes_let_layers_stand_in_others(make):
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype("float32")
    layer = make()
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, keras.layers.TimeDistributed(layer)(inputs))
    assert tuple(layer.compute_output_shape((None, 4, 6))) == (None, 4, 6)
    for row in range(3):
        expected = keras.ops.convert_to_numpy(layer(x[:, row]))
        found = keras.ops.convert_to_numpy(model(x))[:, row]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_graph_need_not_know_any_size():
    tf = pytest.importorskip("tensorflow")
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    place, block = positions.SinusoidalPosition(), EncoderBlock(2, 8)
    expected = block(place(x))
    graph = tf.function(lambda x: block(place(x)), input_signature=[tf.TensorSpec([None] * 3)])
    np.testing.assert_allclose(graph(x), expected, atol=1e-6)


def test_output_shapes_of_attention_are_those_of_its_output():
    query, value = np.zeros((2, 3, 6), "float32"), np.zeros((2, 5, 4), "float32")
    layers = [
        Attention("additive"),
        MultiHeadAttention(2, 3),
        MultiHeadAttention(2, 3, output_dim=7),
        LatentAttention(2, 3, latent_dim=4, rotary_dim=2, output_dim=7),
        LinformerAttention(2, 3, projected_length=2),
        NystromAttention(2, 3, num_landmarks=2),
        PerformerAttention(2, 3, num_features=4),
    ]
    for layer in layers:
        found = layer.compute_output_shape(query.shape, value.shape)
        assert found == tuple(layer(query, value).shape)
