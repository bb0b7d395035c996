"""Attention and MultiHeadAttention against their equations in float64 NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention, masks, scores
from tests.attention import oracle
from tests.attention.gradients import gradients, gradients_in_every_form, weight_gradients

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 3, 4, 6, 5
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2}
SCORES = ["dot", "scaled_dot", "general", "additive"]
RNG = np.random.default_rng(0)


def random(*shape, dtype="float32"):
    """Random numbers that this dtype represents exactly, in float64."""
    return oracle.float64(ops.cast(RNG.normal(size=shape), dtype))


def some(*shape):
    """Random booleans, three quarters of them true."""
    return RNG.random(shape) < 0.75


def single_head(score="scaled_dot", **arguments):
    return Attention(score, **arguments), oracle.attention


def multi_head(score="scaled_dot", **arguments):
    layer = MultiHeadAttention(HEADS, 4, value_dim=2, output_dim=7, score=score, **arguments)
    return layer, oracle.multi_head_attention


def randomize(layer):
    """Perturbs every weight, so that zero biases matter, too."""
    for variable in layer.weights:
        if "seed" not in variable.path:
            variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))


def assert_like_oracle(layer, expect, query, value, key=None, tolerance=1e-5, **masks):
    """Compares the context and weights of a layer with those of the oracle."""
    layer(query, value, key)  # builds it
    randomize(layer)
    context, weights = layer(query, value, key, return_attention_scores=True, **masks)
    expected_context, expected_weights = expect(layer, query, value, key, **masks)
    np.testing.assert_allclose(oracle.float64(weights), expected_weights, atol=tolerance)
    np.testing.assert_allclose(
        oracle.float64(context), expected_context, atol=tolerance, rtol=tolerance
    )
    without_weights = layer(query, value, key, **masks)
    np.testing.assert_array_equal(oracle.float64(without_weights), oracle.float64(context))


MASKS = {
    "nothing": {},
    "query": {"query_mask": some(BATCH, QUERIES)},
    "value": {"value_mask": some(BATCH, KEYS)},
    "key": {"key_mask": some(BATCH, KEYS)},
    "pairs": {"attention_mask": some(QUERIES, KEYS)},
    "pairs of a batch": {"attention_mask": some(BATCH, QUERIES, KEYS)},
    "pairs of one batch": {"attention_mask": some(1, QUERIES, KEYS)},
    "pairs of one head": {"attention_mask": some(BATCH, 1, QUERIES, KEYS)},
    "causal": {"use_causal_mask": True},
    "nobody sees anything": {"value_mask": np.zeros((BATCH, KEYS), bool)},
    "everything at once": {
        "query_mask": some(BATCH, QUERIES),
        "value_mask": some(BATCH, KEYS),
        "key_mask": some(BATCH, KEYS),
        "attention_mask": some(BATCH, QUERIES, KEYS),
        "use_causal_mask": True,
    },
}


@pytest.mark.few(9)
@pytest.mark.pairwise
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", MASKS)
def test_equals_the_equations_under_every_mask(make, score, name):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    assert_like_oracle(*make(score), query, value, **MASKS[name])


@pytest.mark.few(4)
@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("score", SCORES)
def test_equals_the_equations_in_half_precision(make, score, dtype):
    rounding = dtype.removeprefix("mixed_")
    query = random(BATCH, QUERIES, SIZE, dtype=rounding)
    value = random(BATCH, KEYS, SIZE, dtype=rounding)
    layer, expect = make(score, dtype=dtype)
    everything = MASKS["everything at once"]
    assert_like_oracle(layer, expect, query, value, tolerance=TOLERANCE[rounding], **everything)


@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_context_has_the_compute_dtype_and_weights_are_float32(make, dtype):
    layer, _ = make("additive", dtype=dtype)
    x = random(BATCH, QUERIES, SIZE)
    context, weights = layer(x, x, return_attention_scores=True)
    assert keras.backend.standardize_dtype(context.dtype) == dtype
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"


def test_mask_with_a_heads_axis_is_for_each_head():
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    mask = some(BATCH, HEADS, QUERIES, KEYS)
    assert_like_oracle(*multi_head(), query, value, attention_mask=mask)


@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("score", ["general", "additive"])
def test_sizes_of_query_key_and_value_may_differ(make, score):
    query, key, value = random(BATCH, 4, 5), random(BATCH, 6, 3), random(BATCH, 6, 8)
    assert_like_oracle(*make(score), query, value, key)


def test_projections_let_every_score_take_different_sizes_in_multi_head_attention():
    query, key, value = random(BATCH, 4, 5), random(BATCH, 6, 3), random(BATCH, 6, 8)
    assert_like_oracle(*multi_head("dot", use_bias=False), query, value, key)


def test_additive_score_takes_its_units():
    query, value = random(BATCH, QUERIES, 3), random(BATCH, KEYS, 5)
    layer, expect = multi_head(scores.Additive(units=9))
    assert_like_oracle(layer, expect, query, value)
    assert layer.attention.score.query_kernel.shape == (HEADS, layer.key_dim, 9)


def test_weights_of_a_head_are_drawn_as_if_it_were_alone():
    layer = MultiHeadAttention(8, 64, score="general")
    layer.build((None, None, 64), (None, None, 64))
    kernel = oracle.weight(layer.attention.score, "kernel")
    np.testing.assert_allclose(kernel.std(axis=(1, 2)), np.sqrt(2 / (64 + 64)), rtol=0.1)
    assert len(np.unique(kernel)) > 0.99 * kernel.size


@pytest.mark.parametrize("make", [scores.General, scores.Additive])
def test_seed_of_an_initializer_reproduces_heads_that_differ(make):
    kernels = []
    for _ in range(2):
        layer, _ = multi_head(make(kernel_initializer=keras.initializers.GlorotUniform(seed=1)))
        layer.build((None, None, SIZE), (None, None, SIZE))
        kernels.append(oracle.float64(layer.attention.score.weights[0]))
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert np.abs(kernels[0][0] - kernels[0][1]).max() > 0.01


@pytest.mark.few(4)
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("shape", [(BATCH, 1, 1), (BATCH, 1, KEYS), (BATCH, QUERIES, 1), (1, 7, 2)])
def test_causal_mask_is_aligned_to_the_end_for_all_lengths(make, shape):
    batch, queries, keys = shape
    query, value = random(batch, queries, SIZE), random(batch, keys, SIZE)
    assert_like_oracle(*make(), query, value, use_causal_mask=True)


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", [(0, QUERIES, KEYS), (BATCH, 0, KEYS), (BATCH, QUERIES, 0)])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("make", [single_head, multi_head])
def test_axes_may_be_empty(make, shape, masked):
    batch, queries, keys = shape
    query, value = random(batch, queries, SIZE), random(batch, keys, SIZE)
    given = {"value_mask": np.ones((batch, keys), bool), "use_causal_mask": True} if masked else {}
    assert_like_oracle(*make(), query, value, **given)


@pytest.mark.parametrize("make", [single_head, multi_head])
def test_mask_of_the_constructor_counts_together_with_those_of_the_call(make):
    query, value = random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE)
    pairs, padding = some(QUERIES, KEYS), some(BATCH, KEYS)
    layer, expect = make(mask=masks.Causal() & masks.Array(pairs))
    layer(query, value)
    _, weights = layer(query, value, value_mask=padding, return_attention_scores=True)
    given = {"value_mask": padding, "attention_mask": pairs, "use_causal_mask": True}
    expected = expect(layer, query, value, **given)[1]
    np.testing.assert_allclose(oracle.float64(weights), expected, atol=1e-6)


def with_implicit_mask(x, mask):
    """Lets Keras attach its own mask to a tensor, which becomes 0 where it is masked."""
    return keras.layers.Masking(0.0)(np.where(mask[:, :, None], x, 0.0))


@pytest.mark.parametrize("make", [single_head, multi_head])
def test_implicit_explicit_and_causal_masks_count_together(make):
    query, value, key = (random(BATCH, length, SIZE) for length in (QUERIES, KEYS, KEYS))
    layer, expect = make("additive")
    layer(query, value, key)
    implicit = {
        "query_mask": some(BATCH, QUERIES),
        "value_mask": some(BATCH, KEYS),
        "key_mask": some(BATCH, KEYS),
    }
    explicit = {name: some(*mask.shape) for name, mask in implicit.items()}
    pairs = some(BATCH, QUERIES, KEYS)
    context, weights = layer(
        with_implicit_mask(query, implicit["query_mask"]),
        with_implicit_mask(value, implicit["value_mask"]),
        with_implicit_mask(key, implicit["key_mask"]),
        **explicit,
        attention_mask=pairs,
        use_causal_mask=True,
        return_attention_scores=True,
    )
    both = {name: implicit[name] & explicit[name] for name in implicit}
    expected = expect(layer, query, value, key, **both, attention_mask=pairs, use_causal_mask=True)
    np.testing.assert_allclose(oracle.float64(weights), expected[1], atol=1e-6)
    np.testing.assert_allclose(oracle.float64(context), expected[0], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_implicit_and_explicit_masks_count_together_in_a_compiled_model(dtype):
    ids = keras.Input((None,), dtype="int32")
    visible = keras.Input((None,), dtype="bool")
    embedded = keras.layers.Embedding(9, SIZE, mask_zero=True, dtype=dtype)(ids)
    _, weights = Attention(dtype=dtype)(
        embedded, embedded, value_mask=visible, return_attention_scores=True
    )
    model = keras.Model([ids, visible], weights)
    tokens, seen = np.array([[3, 4, 5, 0]]), np.array([[False, True, True, True]])
    weights = model.predict([tokens, seen], verbose=0)[0]
    np.testing.assert_array_equal(weights > 0, [[0, 1, 1, 0]] * 3 + [[0, 0, 0, 0]])


@pytest.mark.few(5)
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("junk", [np.nan, np.inf])
def test_what_stands_at_padded_places_has_no_effect(make, score, junk):
    query, value, key = (random(BATCH, length, SIZE) for length in (QUERIES, KEYS, KEYS))
    query_mask, key_mask = some(BATCH, QUERIES), some(BATCH, KEYS)
    layer, _ = make(score)
    layer.build(query.shape, value.shape, key.shape)

    def call(query, value, key):
        return layer(query, value, key, query_mask=query_mask, key_mask=key_mask)

    def spoil(x, mask):
        return np.where(mask[:, :, None], x, junk).astype("float32")

    clean = [each.astype("float32") for each in (query, value, key)]
    dirty = [spoil(query, query_mask), spoil(value, key_mask), spoil(key, key_mask)]
    np.testing.assert_array_equal(oracle.float64(call(*dirty)), oracle.float64(call(*clean)))
    for spoiled, expected in zip(gradients(call, *dirty), gradients(call, *clean), strict=True):
        np.testing.assert_array_equal(oracle.float64(spoiled), oracle.float64(expected))


@pytest.mark.parametrize("make", [single_head, multi_head])
def test_gradients_equal_finite_differences_of_the_equations(request, make):
    inputs = [random(1, 2, 3), random(1, 3, 3), random(1, 3, 3)]
    given = {"use_causal_mask": True, "attention_mask": np.array([[[1, 0, 1], [0, 0, 0]]], bool)}
    cases, expected = {}, {}
    for score in SCORES:
        layer, expect = make(score)
        layer.build(*(each.shape for each in inputs))
        randomize(layer)

        def call(query, value, key, layer=layer):
            return layer(query, value, key, **given)

        def expected_total(query, value, key, layer=layer, expect=expect):
            return expect(layer, query, value, key, **given)[0].sum()

        cases[score] = call, *(each.astype("float32") for each in inputs)
        expected[score] = oracle.numerical_gradients(expected_total, *inputs)
    # `scores_test` always compares the gradients of every score in a graph.
    forms = None if request.config.getoption("--full") else ["XLA"]
    for score, found in gradients_in_every_form(cases, forms=forms).items():
        for gradient, difference in zip(found, expected[score], strict=True):
            np.testing.assert_allclose(
                oracle.float64(gradient), difference, atol=2e-5, err_msg=score
            )


@pytest.mark.parametrize("score", ["general", "additive"])
def test_every_weight_gets_a_gradient(score):
    layer, _ = multi_head(score)
    x = random(BATCH, QUERIES, SIZE)
    layer(x, x)
    randomize(layer)
    for path, gradient in weight_gradients(layer, x, x).items():
        assert np.abs(oracle.float64(gradient)).max() > (0 if "key/bias" in path else 1e-6), path


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general"])
def test_logits_up_to_100000_stay_finite_in_half_precision(score, dtype):
    # 64 · 40 · 40 = 102 400, beyond the largest float16, 65 504
    query = np.full((1, 2, 64), 40.0)
    key = np.stack([np.full((64,), 40.0), np.full((64,), 39.0), np.full((64,), -40.0)])[None]
    score = scores.General(kernel_initializer="identity") if score == "general" else score
    layer = Attention(score, dtype=dtype)
    context, weights = layer(query, key, return_attention_scores=True)
    np.testing.assert_allclose(oracle.float64(weights), [[[1, 0, 0]] * 2], atol=1e-6)
    np.testing.assert_array_equal(oracle.float64(context), query)
    for gradient in gradients(layer, *(ops.cast(each, dtype) for each in (query, key))):
        assert np.isfinite(oracle.float64(gradient)).all()


@pytest.mark.parametrize("make", [single_head, multi_head])
def test_returned_weights_are_those_before_dropout(make):
    layer, _ = make(dropout=0.5, seed=3)
    x = random(BATCH, 16, SIZE)
    kept, weights = layer(x, x, return_attention_scores=True)
    dropped, weights_in_training = layer(x, x, return_attention_scores=True, training=True)
    np.testing.assert_array_equal(oracle.float64(weights_in_training), oracle.float64(weights))
    np.testing.assert_allclose(oracle.float64(weights_in_training).sum(-1), 1.0, atol=1e-5)
    assert np.abs(oracle.float64(dropped - kept)).max() > 0.01


def test_dropout_is_the_mean_of_its_draws_and_off_in_inference():
    layer = Attention(dropout=0.5, seed=0)
    x = np.repeat(random(1, 1, SIZE), 400, axis=0)  # the only weight is 1: kept or dropped
    np.testing.assert_allclose(oracle.float64(layer(x, x)), x, atol=1e-6)
    ratio = oracle.float64(layer(x, x, training=True))[:, 0, 0] / x[:, 0, 0]
    assert set(ratio.round(5)) == {0.0, 2.0}
    assert ratio.mean() == pytest.approx(1.0, abs=0.2)


def test_dropout_is_reproduced_by_its_seed():
    x = random(BATCH, QUERIES, SIZE)
    first, same, other = (Attention(dropout=0.5, seed=seed) for seed in (1, 1, 2))
    expected = oracle.float64(first(x, x, training=True))
    np.testing.assert_array_equal(oracle.float64(same(x, x, training=True)), expected)
    assert np.abs(oracle.float64(other(x, x, training=True)) - expected).max() > 0.01
    assert np.abs(oracle.float64(first(x, x, training=True)) - expected).max() > 0.01


@pytest.mark.few(3)
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("score", SCORES)
def test_one_query_at_a_time_over_growing_keys_equals_the_causal_layer(make, score):
    layer, _ = make(score)
    x = random(BATCH, 5, SIZE)
    mask = np.array([[True] * 5, [False, True, True, False, True]])
    context, weights = layer(
        x, x, value_mask=mask, use_causal_mask=True, return_attention_scores=True
    )
    for now in range(5):
        seen = slice(0, now + 1)
        step, step_weights = layer(
            x[:, now : now + 1],
            x[:, seen],
            value_mask=mask[:, seen],
            use_causal_mask=True,
            return_attention_scores=True,
        )
        np.testing.assert_allclose(
            oracle.float64(step[:, 0]), oracle.float64(context[:, now]), atol=1e-5
        )
        np.testing.assert_allclose(
            oracle.float64(step_weights[..., 0, :]),
            oracle.float64(weights[..., now, seen]),
            atol=1e-6,
        )


@pytest.mark.few(4)
@pytest.mark.parametrize("make", [single_head, multi_head])
@pytest.mark.parametrize("score", SCORES)
def test_memory_prepared_once_serves_every_query(make, score):
    layer, _ = make(score)
    query, value, key = (ops.cast(random(BATCH, 5, SIZE), "float32") for _ in range(3))
    mask = some(BATCH, 5)
    expected, expected_weights = layer(
        query, value, key, value_mask=mask, return_attention_scores=True
    )
    memory = layer.prepare(value, key, value_mask=mask)
    for i in range(5):
        context, weights = layer.attend(query[:, i : i + 1], memory)
        np.testing.assert_allclose(
            oracle.float64(context[:, 0]), oracle.float64(expected[:, i]), atol=1e-5
        )
        np.testing.assert_allclose(
            oracle.float64(weights[..., 0, :]),
            oracle.float64(expected_weights[..., i, :]),
            atol=1e-6,
        )


@pytest.mark.parametrize("implementation", ["reference", "chunked", "fused"])
def test_logits_beyond_half_precision_do_not_overflow(implementation):
    x = np.full((1, 3, 64), 100.0)  # logits of 80,000, intermediate sums of 640,000
    value = random(1, 3, 64, dtype="float16")
    layer = Attention(implementation=implementation, dtype="float16")
    context = layer(x, value, x)
    assert keras.backend.standardize_dtype(context.dtype) == "float16"
    expected = np.broadcast_to(value.mean(1, keepdims=True), value.shape)
    np.testing.assert_allclose(oracle.float64(context), expected, atol=2e-3)


def test_prepared_memory_has_the_batch_first_so_that_beams_can_be_reordered():
    layer, _ = multi_head("additive")
    x = ops.cast(random(BATCH, QUERIES, SIZE), "float32")
    mask = some(BATCH, QUERIES)
    layer(x, x)
    memory = layer.prepare(x, value_mask=mask)
    swapped = type(memory)(*(ops.flip(each, axis=0) for each in memory))
    context, _ = layer.attend(ops.flip(x, axis=0), swapped)
    expected, _ = layer.attend(x, memory)
    np.testing.assert_allclose(oracle.float64(context)[::-1], oracle.float64(expected), atol=1e-6)


def test_a_list_of_inputs_brings_all_its_masks():
    query, value, key = random(BATCH, 4, 5), random(BATCH, 6, 3), random(BATCH, 6, 5)
    seen = np.arange(4) < 3, np.arange(6) < 5, np.arange(6) > 0
    masks = [np.tile(mask, (BATCH, 1)) for mask in seen]
    layer = Attention()
    expected = layer(query, value, key, *masks)
    found = layer([query, value, key], mask=masks)
    np.testing.assert_array_equal(oracle.float64(found), oracle.float64(expected))
    two = layer([query, value, key], mask=masks[:2])
    assert np.abs(oracle.float64(two) - oracle.float64(expected)).max() > 1e-3
