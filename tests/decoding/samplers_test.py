"""Samplers: their draws against NumPy; how they are named, compared and validated."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from zoo import decoding

DRAWS = 4000
LOG_PROBS = np.log(np.array([0.05, 0.4, 0.0, 0.25, 0.1, 0.2], "float32") + 1e-38)
LOG_PROBS[2] = -np.inf


def frequencies(sampler, log_probs=LOG_PROBS):
    """How often a sampler picks each token for uniform numbers on a regular grid."""
    uniforms = (np.arange(DRAWS, dtype="float32") + 0.5) / DRAWS
    tokens = sampler.pick(tf.repeat(log_probs[None], DRAWS, axis=0), tf.constant(uniforms))
    return np.bincount(tokens, minlength=len(log_probs)) / DRAWS


def distribution(log_probs, temperature=1.0, kept=None):
    weights = np.exp(log_probs.astype("float64") / temperature)
    if kept is not None:
        weights[[token for token in range(len(weights)) if token not in kept]] = 0
    return weights / weights.sum()


def nucleus(probabilities, p):
    """The definition of top-p, token by token."""
    kept, mass = [], 0.0
    for token in np.argsort(-probabilities, kind="stable"):
        if mass >= p:
            break
        kept.append(token)
        mass += probabilities[token]
    return kept


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_random_follows_the_distribution(temperature):
    found = frequencies(decoding.RandomSampler(temperature=temperature))
    np.testing.assert_allclose(found, distribution(LOG_PROBS, temperature), atol=1 / DRAWS)


@pytest.mark.parametrize("k", [1, 2, 4, 6, 100])
def test_top_k_draws_from_the_k_best(k):
    kept = np.argsort(-LOG_PROBS, kind="stable")[:k]
    found = frequencies(decoding.TopKSampler(k=k, temperature=2.0))
    np.testing.assert_allclose(found, distribution(LOG_PROBS, 2.0, kept), atol=1 / DRAWS)


@pytest.mark.parametrize("p", [1e-6, 0.3, 0.41, 0.66, 0.86, 1.0])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_top_p_draws_from_the_nucleus(p, temperature):
    kept = nucleus(distribution(LOG_PROBS, temperature), p)
    found = frequencies(decoding.TopPSampler(p=p, temperature=temperature))
    np.testing.assert_allclose(found, distribution(LOG_PROBS, temperature, kept), atol=1 / DRAWS)


@pytest.mark.few(1)  # without XLA
@pytest.mark.parametrize("jit_compile", [True, False])
def test_top_p_is_exact_for_a_nucleus_of_any_size(jit_compile):
    log_probs = np.random.default_rng(0).normal(size=2000).astype("float32")
    log_probs -= np.log(np.exp(log_probs).sum())
    pick = decoding.TopPSampler(p=0.8).pick
    pick = tf.function(pick, jit_compile=jit_compile, autograph=False)
    uniforms = np.linspace(0, 1, 3000, endpoint=False, dtype="float32")
    tokens = set(pick(tf.repeat(log_probs[None], 3000, axis=0), uniforms).numpy())
    assert tokens <= set(nucleus(np.exp(log_probs), 0.8 + 1e-5))
    assert len(tokens) > 256


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ["random", "top_k", "top_p"])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_what_is_masked_is_never_drawn(name, jit_compile):
    rng = np.random.default_rng(1)
    log_probs = np.where(rng.random((300, 999)) < 0.9, -np.inf, rng.normal(size=(300, 999)))
    log_probs = tf.constant(log_probs, tf.float32)
    pick = tf.function(decoding.get(name).pick, jit_compile=jit_compile, autograph=False)
    for uniform in (0.0, 0.5, 1 - 2**-24):
        tokens = pick(log_probs, tf.fill([300], tf.constant(uniform, tf.float32)))
        assert np.isfinite(tf.gather(log_probs, tokens, batch_dims=1)).all()


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-39, 1e-50])
@pytest.mark.parametrize("name", ["random", "top_k", "top_p"])
def test_temperature_towards_zero_is_greedy(name, temperature):
    assert frequencies(decoding.get(name, temperature=temperature))[1] == 1.0


def test_seeded_texts_follow_the_distribution():
    seeds = tf.stack([tf.fill([DRAWS], 5), tf.range(DRAWS)], axis=1)
    logits = tf.constant([9.0, 9.0, 0.0, 1.0, 2.0])  # a high probability of padding and start

    def step(tokens, state, context):
        return tf.repeat(logits[None], tf.shape(tokens)[0], axis=0), state, None

    decoded = decoding.decode(
        step, (), (), "random", start_id=1, end_id=2, max_lengths=tf.fill([DRAWS], 2), seeds=seeds
    )
    tokens, lengths = decoded.token_ids[:, 0].numpy(), decoded.lengths[:, 0].numpy()
    end, low, high = np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum()
    pairs = {(): end, (3,): low * end, (4,): high * end}
    pairs |= {(a, b): x * y for a, x in ((3, low), (4, high)) for b, y in ((3, low), (4, high))}
    expected = DRAWS * np.array(list(pairs.values()))
    texts = [tuple(row[:length]) for row, length in zip(tokens, lengths, strict=True)]
    counts = np.array([texts.count(pair) for pair in pairs])
    assert counts.sum() == DRAWS
    assert ((counts - expected) ** 2 / expected).sum() < 22.5  # chi-square, 6 degrees, p = 0.001


def test_get_makes_samplers_by_name():
    assert decoding.get("greedy") == decoding.GreedySampler()
    assert decoding.get("top_k", k=3, temperature=0.5).k == 3
    sampler = decoding.get("beam", num_beams=2)
    assert decoding.get(sampler) is sampler
    assert decoding.get(keras.saving.serialize_keras_object(sampler)) == sampler


def test_samplers_compare_print_and_hash_by_their_options():
    one, same, other = (decoding.TopPSampler(p=p) for p in (0.5, 0.5, 0.6))
    assert one == same != other
    assert {one: "compiled"}[same] == "compiled"
    assert decoding.RandomSampler() != decoding.TopPSampler()
    assert repr(one) == "TopPSampler(temperature=1.0, p=0.5)"
    assert eval(repr(one), vars(decoding)) == one


def test_numbers_of_numpy_are_numbers():
    options = {"num_beams": np.int64(3), "num_return_sequences": np.uint8(2)}
    found = decoding.get("beam", length_penalty=np.float32(0.5), **options)
    found = [found, decoding.get("top_k", k=np.int64(4)), decoding.get("top_p", p=np.float64(0.5))]
    expected = [
        decoding.BeamSampler(num_beams=3, length_penalty=0.5, num_return_sequences=2),
        decoding.TopKSampler(k=4),
        decoding.TopPSampler(p=0.5),
    ]
    assert list(map(repr, found)) == list(map(repr, expected))
    json.dumps([sampler.get_config() for sampler in found])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("beams", {}, "Unknown sampler 'beams'. Did you mean 'beam'"),
        (7, {}, "Unknown sampler 7. Known: greedy, random, top_k, top_p, beam"),
        ("top_k", {"p": 0.5}, "'top_k' has no option 'p'. Its options: temperature, k, and"),
        ("greedy", {"temperature": 2.0}, "'greedy' has no option 'temperature'. Its options: none"),
        (decoding.GreedySampler(), {"k": 1}, "Options go with the name of a sampler"),
        ("top_k", {"k": 0}, "`k` must be an integer of at least 1. Received: k=0"),
        ("top_k", {"k": 2.5}, "`k` must be an integer"),
        ("top_p", {"p": 1.5}, "`p` must be a number above 0 and at most 1. Received: p=1.5"),
        ("top_p", {"p": 0.0}, "`p` must be"),
        ("random", {"temperature": 0}, "`temperature` must be a finite number above 0. Received"),
        ("random", {"temperature": 1e39}, "`temperature` must be a finite number"),
        ("top_p", {"temperature": float("nan")}, "`temperature` must be"),
        ("beam", {"num_beams": 0}, "`num_beams` must be an integer of at least 1. Received"),
        ("beam", {"length_penalty": float("inf")}, "`length_penalty` must be a number from -10 to"),
        ("beam", {"length_penalty": float("nan")}, "`length_penalty` must be a number from -10 to"),
        ("beam", {"length_penalty": -18.0}, "`length_penalty` must be a number from -10 to 10. "),
        (
            "beam",
            {"num_beams": 2, "num_return_sequences": 3},
            "`num_return_sequences` must be an integer from 1 to num_beams=2. Received: "
            "num_return_sequences=3",
        ),
    ],
)
def test_get_explains_errors(name, options, message):
    with pytest.raises(ValueError, match=".*") as error:
        decoding.get(name, **options)
    assert message in str(error.value)
