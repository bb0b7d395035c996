"""Every score with every mask, normalizer and implementation in every layer, against NumPy."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, normalizers, scores
from keras_attention.compute import tiles
from tests.attention import mask_cases, oracle
from tests.attention.compiled import compiled
from tests.attention.gradients import gradients

BATCH, HEADS, QUERIES, KEYS = (
    mask_cases.BATCH,
    mask_cases.HEADS,
    mask_cases.QUERIES,
    mask_cases.KEYS,
)
SIZE = 6
KERNELS = {"boxcar", "triangular", "epanechnikov"}
POSITIONAL = {"location", "dense_synthesizer", "random_synthesizer"}
MASKS = ["causal", "window", "longformer", "big bird", "prefix LM", "nested", "keys", "pairs"]
COMPUTATIONS = [("reference", name) for name in normalizers.names()]
COMPUTATIONS += [("chunked", name) for name in ("softmax", "softmax_one", "sum")]
COMPUTATIONS = [(score, *each) for score in scores.names() for each in COMPUTATIONS]
COMPUTATIONS += [("scaled_dot", "fused", "softmax")]
# A normalizer of whole rows knows which keys are hidden, but not by which mask: two masks suffice
# for all normalizers except softmax.
CASES = [
    (score, implementation, normalizer, mask)
    for score, implementation, normalizer in COMPUTATIONS
    for mask in MASKS
    if implementation != "reference" or normalizer == "softmax" or mask in ("nested", "pairs")
]
LAYERS = ["single head", "several heads"]
# Multi-head attention with one head, whose axis of size 1 is removed for products.
ONE_HEAD = "one head"
OF_ONE_HEAD = [(ONE_HEAD, *case) for case in CASES if case[-1] == "nested"]
TOLERANCE = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of 4 × 4, so that these lengths give several tiles, not all of them full."""
    monkeypatch.setattr(tiles, "LONGEST_TILE", 4)
    monkeypatch.setattr(tiles, "SHORTEST_TILE", 4)


def random(*shape, dtype="float32"):
    """Positive, close random numbers that this dtype represents exactly, in float64.

    Sums of scores are then far from 0, and kernels of width 3 are wide enough.
    """
    return oracle.float64(ops.cast(0.3 + 0.7 * RNG.random(shape), dtype))


QUERY, VALUE = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)


def make_score(name):
    if name in POSITIONAL:
        return type(scores.get(name))(max_length=8)
    return type(scores.get(name))(width=3.0) if name in KERNELS else scores.get(name)


def make_layer(kind, score, normalizer, implementation, query=QUERY, value=VALUE, **arguments):
    """Returns a layer that has been called, with new random weights."""
    arguments |= {"score": make_score(score), "implementation": implementation}
    arguments |= {"normalizer": normalizer}
    if kind != "single head":
        heads = 1 if kind == ONE_HEAD else HEADS
        layer = MultiHeadAttention(heads, 4, value_dim=2, **arguments)
    else:
        layer = Attention(**arguments)
    layer(query, value)
    rng = np.random.default_rng(1)  # the same weights, and thus ties, in every test
    for weight in layer.trainable_weights:
        weight.assign(0.2 + 0.3 * rng.random(weight.shape))
    return layer


cached_layer = functools.cache(make_layer)


def expected(layer, query, value, **masks):
    attend = (
        oracle.multi_head_attention if isinstance(layer, MultiHeadAttention) else oracle.attention
    )
    return attend(layer, query, value, **masks)


@functools.cache
def visible_pairs(name, heads):
    """Visible pairs of queries and keys, by the plain rule of the mask."""
    positions = np.arange(KEYS - QUERIES, KEYS), np.arange(KEYS)
    return mask_cases.brute_force(mask_cases.ALL[name][1], *positions, BATCH, heads)


@pytest.mark.few(40)
@pytest.mark.pairwise
@pytest.mark.parametrize(
    ("kind", "score", "implementation", "normalizer", "mask"),
    [(kind, *case) for kind in LAYERS for case in CASES] + OF_ONE_HEAD,
)
def test_equals_the_equations(kind, score, implementation, normalizer, mask):
    layer = cached_layer(kind, score, normalizer, implementation)
    with_weights = implementation == "reference"
    context, weights = layer.attend(
        ops.convert_to_tensor(QUERY, "float32"),
        layer.prepare(ops.convert_to_tensor(VALUE, "float32")),
        mask=mask_cases.ALL[mask][0],
        return_attention_scores=with_weights,
    )
    visible = visible_pairs(mask, getattr(layer, "num_heads", 1))
    wanted_context, wanted_weights = expected(layer, QUERY, VALUE, visible=visible)
    np.testing.assert_allclose(oracle.float64(context), wanted_context, atol=2e-5)
    if with_weights:
        np.testing.assert_allclose(oracle.float64(weights), wanted_weights, atol=1e-5)
        hidden = np.broadcast_to(wanted_weights == 0, weights.shape)
        seen = visible[:, 0] if kind == "single head" else visible
        np.testing.assert_array_equal(oracle.float64(weights)[hidden & ~seen], 0.0)


@pytest.mark.few(6)
@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("kind", [*LAYERS, ONE_HEAD])
def test_equals_the_equations_in_half_precision(kind, score, implementation, dtype):
    normalizer = "sum" if score in KERNELS else "softmax"
    query = random(BATCH, QUERIES, SIZE, dtype=dtype)
    value = random(BATCH, KEYS, SIZE, dtype=dtype)
    layer = make_layer(kind, score, normalizer, implementation, query, value, dtype=dtype)
    found = layer(query, value, use_causal_mask=True)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    wanted, _ = expected(layer, query, value, use_causal_mask=True)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(oracle.float64(found), wanted, atol=tolerance, rtol=2 * tolerance)


@pytest.mark.few(3)
@pytest.mark.pairwise
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("kind", [*LAYERS, ONE_HEAD])
def test_gradients_equal_finite_differences_of_the_equations(kind, score, implementation):
    normalizer = "sum" if score in KERNELS - {"boxcar"} else "softmax"
    query, value = random(1, 5, 2), random(1, 5, 2)
    layer = make_layer(kind, score, normalizer, implementation, query, value)
    found = gradients(
        lambda *inputs: layer(*inputs, use_causal_mask=True) ** 2,
        query.astype("float32"),
        value.astype("float32"),
    )

    def total(query, value):
        return (expected(layer, query, value, use_causal_mask=True)[0] ** 2).sum()

    for gradient, wanted in zip(
        found, oracle.numerical_gradients(total, query, value), strict=True
    ):
        np.testing.assert_allclose(oracle.float64(gradient), wanted, atol=2e-4, rtol=1e-3)


ODD_SHAPES = [(2, 1, 1), (2, 1, 5), (2, 5, 1), (0, 3, 4), (3, 8, 8)]


@pytest.mark.few(3)
@pytest.mark.pairwise
@pytest.mark.parametrize("shape", ODD_SHAPES)
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("kind", LAYERS)
def test_odd_shapes(kind, score, implementation, shape):
    normalizer = "sum" if score in KERNELS else "softmax"
    batch, queries, keys = shape
    query, value = random(batch, queries, SIZE), random(batch, keys, SIZE)
    layer = make_layer(kind, score, normalizer, implementation, query, value)
    found = layer(query, value)
    symbolic = layer.compute_output_spec(keras.Input((queries, SIZE)), keras.Input((keys, SIZE)))
    assert (batch, *symbolic.shape[1:]) == tuple(found.shape)
    wanted, _ = expected(layer, query, value)
    np.testing.assert_allclose(oracle.float64(found), wanted, atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.pairwise
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("kind", LAYERS)
def test_compiled_equals_eager(kind, score, implementation):
    normalizer = "sum" if score in KERNELS else "softmax"
    layer = make_layer(kind, score, normalizer, implementation)
    query, value = (ops.convert_to_tensor(x, "float32") for x in (QUERY, VALUE))
    call = compiled(lambda query, value: layer(query, value, use_causal_mask=True))
    np.testing.assert_allclose(
        oracle.float64(call(query, value)),
        oracle.float64(layer(query, value, use_causal_mask=True)),
        atol=1e-5,
    )


@pytest.mark.few(4)
@pytest.mark.pairwise
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("kind", LAYERS)
def test_what_is_hidden_changes_nothing(kind, score, implementation):
    normalizer = "sum" if score in KERNELS else "softmax"
    layer = make_layer(kind, score, normalizer, implementation)
    mask = np.array([[True] * 4 + [False] * 2, [False] * 3 + [True] * 3])
    changed = np.where(mask[:, :, None], VALUE, np.nan)
    np.testing.assert_array_equal(
        oracle.float64(layer(QUERY, changed, value_mask=mask)),
        oracle.float64(layer(QUERY, VALUE, value_mask=mask)),
    )


@pytest.mark.few(4)
@pytest.mark.pairwise
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("kind", LAYERS)
def test_implicit_masks_equal_explicit_ones(kind, score, implementation):
    normalizer = "sum" if score in KERNELS else "softmax"
    layer = make_layer(kind, score, normalizer, implementation)
    mask = np.array([[True] * 4 + [False] * 2, [False] * 3 + [True] * 3])
    value = np.where(mask[:, :, None], VALUE, 0.0).astype("float32")
    np.testing.assert_array_equal(
        oracle.float64(layer(QUERY, keras.layers.Masking(0.0)(value))),
        oracle.float64(layer(QUERY, value, value_mask=mask)),
    )


@pytest.mark.few(8)
@pytest.mark.pairwise
@pytest.mark.parametrize("normalizer", ["softmax", "sum", "hard", "sparsemax", "entmax15"])
@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("kind", LAYERS)
def test_weights_before_dropout_add_up_to_one(kind, score, normalizer):
    layer = make_layer(kind, score, normalizer, "reference", dropout=0.5)
    _, weights = layer(QUERY, VALUE, return_attention_scores=True, training=True)
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-5)
