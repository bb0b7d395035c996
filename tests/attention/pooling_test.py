"""AttentionPooling against the equations of its papers in float64."""

import keras
import numpy as np
import pytest

from keras_attention import Attention, AttentionPooling, FeedForward, MultiHeadAttention
from tests.attention import oracle
from tests.attention.mistakes import check_message
from tests.attention.saved import check_config

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 6, 4)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]], bool)
LAYERS = {
    "additive": lambda: AttentionPooling(),
    "general, three": lambda: AttentionPooling("general", num_queries=3),
    "heads": lambda: AttentionPooling(MultiHeadAttention(2, 3, use_bias=False)),
    "heads, three": lambda: AttentionPooling(MultiHeadAttention(2, 3), num_queries=3),
    "heads, two axes": lambda: AttentionPooling(MultiHeadAttention(2, 3, output_shape=(2, 5))),
}


def assert_close(found, expected, atol=1e-6):
    np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=atol)


def softmax(scores, visible):
    powers = np.where(visible, np.exp(scores), 0.0)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


def test_equals_word_attention():
    layer = AttentionPooling(Attention("additive", name="attention"))
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(RNG.normal(size=weight.shape))
    score = layer.attention.score
    query, of_query, of_key, bias, v = (
        oracle.float64(each)
        for each in (layer.query, score.query_kernel, score.key_kernel, score.bias, score.direction)
    )
    scores = np.tanh(X @ of_key + query @ of_query + bias) @ v[0]
    expected = softmax(scores, MASK)
    y, weights = layer(X, mask=MASK, return_attention_scores=True)
    assert_close(weights, expected)
    assert_close(y, np.einsum("bt,bts->bs", expected, X))


def test_equals_the_pooling_of_the_set_transformer():
    torch = pytest.importorskip("torch")
    layer = AttentionPooling(MultiHeadAttention(2, 2), num_queries=3)
    layer.build(X.shape)
    attention = layer.attention
    peer = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    parts = attention.query_projection, attention.key_projection, attention.value_projection
    kernels = [oracle.float64(part.kernel).T for part in parts]
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.tensor(np.concatenate(kernels)))
        peer.in_proj_bias.zero_()
        peer.out_proj.weight.copy_(
            torch.tensor(oracle.float64(attention.output_projection.kernel)).T
        )
        queries = torch.tensor(np.tile(oracle.float64(layer.query), (2, 1, 1)), dtype=torch.float32)
        expected, of_peer = peer(
            queries,
            torch.tensor(X[:2]),
            torch.tensor(X[:2]),
            key_padding_mask=torch.tensor(~MASK[:2]),
            average_attn_weights=False,
        )
    y, weights = layer(X[:2], mask=MASK[:2], return_attention_scores=True)
    assert_close(y, expected)
    assert_close(weights, of_peer)


@pytest.mark.parametrize("name", LAYERS)
def test_shapes_are_those_that_were_told(name):
    layer = LAYERS[name]()
    spec = layer(keras.KerasTensor((None, None, 4)), return_attention_scores=True)
    y, weights = layer(X, return_attention_scores=True)
    assert layer.compute_output_shape(X.shape) == tuple(y.shape)
    for told, found in zip(spec, (y, weights), strict=True):
        assert len(told.shape) == len(found.shape)
        assert all(a in (None, b) for a, b in zip(told.shape, found.shape, strict=True))
    assert_close(layer(X), y)


@pytest.mark.parametrize("name", LAYERS)
def test_padding_does_not_count(name):
    layer = LAYERS[name]()
    y = layer(X, mask=MASK)
    longer = np.concatenate([X, np.full((3, 2, 4), np.nan, "float32")], axis=1)
    found = layer(longer, mask=np.pad(MASK, [(0, 0), (0, 2)]))
    assert_close(found, y)
    assert_close(y[1], layer(X[1:2][:, MASK[1]])[0])
    assert not np.any(oracle.float64(y[2]))  # all biases are 0


def test_the_mask_of_an_embedding_counts_and_ends():
    tokens = np.array([[5, 7, 0, 0], [3, 1, 2, 4]])
    embedding, layer = keras.layers.Embedding(9, 4, mask_zero=True), AttentionPooling()
    y = layer(embedding(tokens))
    assert_close(y[0], layer(embedding(tokens[:1, :2]))[0])
    assert getattr(y, "_keras_mask", None) is None


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(dtype):
    whole, half = AttentionPooling(), AttentionPooling(dtype=dtype)
    expected = whole(X, mask=MASK)
    half.build(X.shape)
    half.set_weights(whole.get_weights())
    y, weights = half(X, mask=MASK, return_attention_scores=True)
    assert keras.backend.standardize_dtype(y.dtype) == half.compute_dtype
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    assert_close(y, expected, atol=0.03)


def test_every_weight_learns():
    inputs = keras.Input((None, 4))
    outputs = keras.layers.Dense(1)(AttentionPooling(MultiHeadAttention(2, 3), 2)(inputs))
    model = keras.Model(inputs, keras.layers.Flatten()(outputs))
    before = model.get_weights()
    model.compile("sgd", "mse")
    model.fit(X, np.array([[1.0, -1.0]] * 3), epochs=2, verbose=0)
    names = [weight.path for weight in model.weights]
    moved = [np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True)]
    # A bias of the keys adds the same to all scores of a query.
    still = [name for name, each in zip(names, moved, strict=True) if not each]
    assert all("key/bias" in name for name in still), still


def test_config():
    check_config(AttentionPooling, {"attention": Attention("general"), "num_queries": 2})


def test_errors():
    check_message(
        lambda: AttentionPooling("additiv"),
        ["additiv", "additive"],
    )
    check_message(
        lambda: AttentionPooling(FeedForward(8)),
        ["`attention` of AttentionPooling", "FeedForward", "such as Attention"],
    )
    check_message(lambda: AttentionPooling(num_queries=0), ["num_queries", "0"])
    check_message(
        lambda: AttentionPooling()(np.ones((2, 3, 4, 5))),
        ["AttentionPooling needs", "(2, 3, 4, 5)", "Reshape"],
    )
