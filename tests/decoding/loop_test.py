"""The decoding loop and beam search against exhaustive and step-by-step searches in NumPy."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from zoo import decoding

PAD, START, END = 0, 1, 2
VOCABULARY = 6
CONTENT = range(3, VOCABULARY)
LENGTH = 4
SOURCES = 8
PREFIXES = sum(VOCABULARY**n for n in range(LENGTH + 1))
SAMPLERS = [
    decoding.GreedySampler(),
    decoding.RandomSampler(temperature=1.5),
    decoding.TopKSampler(k=2),
    decoding.BeamSampler(num_beams=3, num_return_sequences=2, length_penalty=0.6),
    decoding.TopPSampler(p=0.7),
    decoding.BeamSampler(num_beams=3, length_penalty=1.0, exact=False),
    decoding.BeamSampler(num_beams=3, num_return_sequences=2, patience=1.0, only_best_end=True),
]


class TableModel:
    """A language model with independent random logits after each prefix of each source.

    The state is the number of the prefix. The attention reports source and prefix.
    """

    def __init__(self, seed=0, dtype="float32", ends=0.0):
        rng = np.random.default_rng(seed)
        self.logits = (2 * rng.normal(size=(SOURCES, PREFIXES, VOCABULARY))).astype(dtype)
        self.logits[:, :, END] += ends
        self.log_probs = tf.nn.log_softmax(self.logits).numpy()

    def start(self, sources):
        sources = tf.cast(sources, tf.int32)
        state = {"prefix": tf.fill(tf.shape(sources), -1), "count": 0}
        return {"source": sources}, state

    def step(self, tokens, state, context):
        # The first step gets the start token, which leads to prefix 0, the empty prefix.
        prefix = state["prefix"] * VOCABULARY + tokens + 1
        prefix = tf.where(state["count"] == 0, 0, prefix)
        known = tf.minimum(prefix, PREFIXES - 1)  # dead beams continue with any token
        logits = tf.gather_nd(tf.constant(self.logits), tf.stack([context["source"], known], 1))
        seen = tf.stack([context["source"], prefix], 1)
        attention = {"seen": seen, "prefix": tf.cast(prefix, "float16")}
        return logits, {"prefix": prefix, "count": state["count"] + 1}, attention

    def decode(self, sources, sampler, max_lengths, **options):
        context, state = self.start(sources)
        options |= {"start_id": START, "end_id": END, "max_lengths": max_lengths}
        return decoding.decode(self.step, context, state, sampler, **options)

    def log_prob(self, source, text):
        """Log-probability of a sequence of tokens, including the end token if it ends."""
        prefixes = [prefix_number(text[:n]) for n in range(len(text))]
        return sum(self.log_probs[source, p, t] for p, t in zip(prefixes, text, strict=True))


def prefix_number(tokens):
    number = 0
    for token in tokens:
        number = number * VOCABULARY + token + 1
    return number


def hypotheses(model, source, max_length):
    """All possible texts, each with its log-probability and its number of summands."""
    for length in range(max_length + 1):
        for text in itertools.product(CONTENT, repeat=length):
            whole = (*text, END) if length < max_length else text
            yield text, model.log_prob(source, whole), len(whole)


def exhaustive_search(model, source, max_length, length_penalty, count):
    found = [
        (log_prob / max(length, 1) ** length_penalty, log_prob, text)
        for text, log_prob, length in hypotheses(model, source, max_length)
    ]
    return sorted(found, reverse=True)[:count]


def beam_search(
    model,
    source,
    max_length,
    num_beams,
    length_penalty,
    count,
    patience=None,
    only_best_end=False,
    exact=True,
):
    """Beam search with lists.

    It only stops early if there is a patience, or as in transformers if it is not exact.
    """
    live, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        if patience and len(finished) >= patience * num_beams:
            break
        best = sorted((score for score, *_ in finished), reverse=True)[:num_beams]
        is_full = not exact and len(best) == num_beams
        if is_full and live[0][1] / (length - 1) ** length_penalty <= best[-1]:
            break
        candidates = sorted(
            (
                (text + (token,), log_prob + model.log_probs[source, prefix_number(text), token])
                for text, log_prob in live
                for token in (END, *CONTENT)
            ),
            key=lambda candidate: -candidate[1],
        )[: 2 * num_beams]
        live = [c for c in candidates if c[0][-1] != END][:num_beams]
        ending = candidates[:num_beams] if only_best_end else candidates
        done = [(text[:-1], p) for text, p in ending if text[-1] == END]
        done += live if length == max_length else []
        finished += [(p / length**length_penalty, p, text) for text, p in done]
    return sorted(finished, reverse=True)[:count]


def greedy_search(model, source, max_length):
    text = ()
    for _ in range(max_length):
        log_probs = model.log_probs[source, prefix_number(text)]
        token = max((END, *CONTENT), key=lambda token: log_probs[token])
        if token == END:
            break
        text += (token,)
    return text


def texts(decoded, row):
    """The hypotheses of a row as tuples; checks the padding."""
    for tokens, length in zip(decoded.token_ids[row], decoded.lengths[row], strict=True):
        tokens = tokens.numpy()
        assert (tokens[length:] == PAD).all()
        yield tuple(tokens[:length])


def assert_found(decoded, row, expected):
    scores, log_probs, expected_texts = zip(*expected, strict=True)
    found = decoded.lengths.shape[1]
    np.testing.assert_allclose(decoded.scores[row][: len(scores)], scores, rtol=1e-5)
    np.testing.assert_allclose(decoded.log_probs[row][: len(scores)], log_probs, rtol=1e-5)
    assert list(texts(decoded, row))[: len(scores)] == list(expected_texts)
    assert np.isneginf(decoded.scores[row][len(scores) :]).all()
    assert (decoded.lengths[row].numpy()[len(scores) : found] == 0).all()


def assert_same(one, other):
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), tuple(one), tuple(other)
    )


def seeds_of(sources):
    return tf.stack([sources, sources + 100], axis=1)


def options_of(sampler, sources):
    return {"seeds": seeds_of(sources)} if sampler.is_random else {}


@pytest.mark.few(1)
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0, -1.5])
@pytest.mark.parametrize("count", [1, 81])
def test_wide_beam_search_finds_what_exhaustive_search_finds(length_penalty, count):
    model, limits = TableModel(), np.array([4, 1, 4, 2, 3, 4, 0, 4])
    sampler = decoding.BeamSampler(
        num_beams=81, length_penalty=length_penalty, num_return_sequences=count
    )
    decoded = model.decode(np.arange(SOURCES), sampler, limits)
    for row, limit in enumerate(limits):
        assert_found(decoded, row, exhaustive_search(model, row, limit, length_penalty, count))


@pytest.mark.few(1)
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0, -1.5])
@pytest.mark.parametrize(("num_beams", "count"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_beam_search_equals_one_without_early_stop(length_penalty, num_beams, count):
    sampler = decoding.BeamSampler(
        num_beams=num_beams, length_penalty=length_penalty, num_return_sequences=count
    )
    limits = [1, 2, 3, 4, 4, 4, 4, 4]
    for seed in range(3):
        model = TableModel(seed)
        decoded = model.decode(np.arange(SOURCES), sampler, limits)
        for row, limit in enumerate(limits):
            expected = beam_search(model, row, limit, num_beams, length_penalty, count)
            assert_found(decoded, row, expected)


@pytest.mark.few(2)
@pytest.mark.parametrize("length_penalty", [0.0, 1.5])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("patience", "only_best_end"), [(1.0, True), (1.5, False), (None, True)])
def test_patience_and_who_may_end(patience, only_best_end, count, length_penalty):
    options = {"num_beams": 3, "length_penalty": length_penalty}
    options |= {"patience": patience, "only_best_end": only_best_end}
    sampler = decoding.BeamSampler(num_return_sequences=count, **options)
    limits = [1, 2, 3, 4, 4, 4, 4, 4]
    for seed in range(3):
        model = TableModel(seed)
        decoded = model.decode(np.arange(SOURCES), sampler, limits)
        for row, limit in enumerate(limits):
            assert_found(decoded, row, beam_search(model, row, limit, count=count, **options))


@pytest.mark.parametrize("count", [1, 2])
def test_an_inexact_search_whose_best_end_stops_as_in_transformers(count):
    model = TableModel(ends=1.5)
    options = {"num_beams": 2, "length_penalty": 2.0, "exact": False, "only_best_end": True}
    sampler = decoding.BeamSampler(num_return_sequences=count, **options)
    decoded = model.decode(np.arange(SOURCES), sampler, [LENGTH] * SOURCES)
    for row in range(SOURCES):
        assert_found(decoded, row, beam_search(model, row, LENGTH, count=count, **options))


def test_peers_row_14_a_short_best_hypothesis_is_not_lost():
    """A search without a finished set, such as keras-hub's BeamSampler, returns −0.997 here."""
    probabilities = tf.constant([[0.0, 0.0, 0.6, 0.4, 0.0], [0.0, 0.0, 0.04, 0.92, 0.04]])

    def step(tokens, state, context):
        rows = tf.where(tokens == START, 0, 1)
        return tf.math.log(tf.gather(probabilities, rows)), state, None

    ids = {"start_id": START, "end_id": END, "pad_id": PAD}
    sampler = decoding.BeamSampler(num_beams=2, length_penalty=0.0)
    decoded = decoding.decode(step, (), (), sampler, max_lengths=[2], **ids)
    assert decoded.lengths.numpy().tolist() == [[0]]
    np.testing.assert_allclose(decoded.log_probs, [[np.log(0.6)]], rtol=1e-6)


def test_an_inexact_search_stops_sooner_with_the_same_result():
    logits = tf.math.log([[0.0, 0.0, 0.6, 0.3, 0.1]])

    def search(exact):
        def step(tokens, state, context):
            steps.append(tokens)
            return tf.repeat(logits, len(tokens), axis=0), state, None

        steps, sampler = [], decoding.BeamSampler(num_beams=2, length_penalty=1.0, exact=exact)
        ids = {"start_id": START, "end_id": END}
        decoded = decoding.decode(step, (), (), sampler, max_lengths=[20], **ids)
        return decoded[:4], len(steps)

    (exact, exact_steps), (inexact, inexact_steps) = search(True), search(False)
    assert_same(exact, inexact)
    assert inexact_steps == 1  # log 0.3 / 2 < log 0.6
    assert exact_steps == 9  # log 0.3⁹ / 20 < log 0.6: 9 is the smallest such power


def test_greedy_equals_a_python_loop():
    model, limits = TableModel(), [4, 3, 2, 1, 0, 4, 4, 4]
    decoded = model.decode(np.arange(SOURCES), "greedy", limits)
    for row, limit in enumerate(limits):
        assert list(texts(decoded, row)) == [greedy_search(model, row, limit)]


@pytest.mark.few(3)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_log_probs_are_those_of_the_model(sampler):
    model, sources = TableModel(), np.arange(SOURCES)
    decoded = model.decode(sources, sampler, [LENGTH] * SOURCES, **options_of(sampler, sources))
    for row in range(SOURCES):
        for text, log_prob in zip(texts(decoded, row), decoded.log_probs[row], strict=True):
            assert set(text) <= set(CONTENT)
            whole = text if len(text) == LENGTH else (*text, END)
            np.testing.assert_allclose(log_prob, model.log_prob(row, whole), rtol=1e-5)


@pytest.mark.few(4)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_state_and_attention_follow_the_beams(sampler):
    model, sources = TableModel(), np.arange(SOURCES)
    options = options_of(sampler, sources)
    decoded = model.decode(sources, sampler, [LENGTH] * SOURCES, return_attention=True, **options)
    seen, prefixes = decoded.attention["seen"].numpy(), decoded.attention["prefix"].numpy()
    assert prefixes.dtype == np.float16
    for row in range(SOURCES):
        for n, text in enumerate(texts(decoded, row)):
            expected = [(row, prefix_number(text[:time])) for time in range(len(text))]
            expected += [(0, 0)] * (LENGTH - len(text))
            assert seen[row, n].tolist() == [list(pair) for pair in expected]
            assert prefixes[row, n].tolist() == [prefix for _, prefix in expected]


@pytest.mark.few(2)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_a_row_does_not_depend_on_the_others(sampler):
    model, sources, limits = TableModel(), tf.range(SOURCES), [4, 1, 3, 0, 4, 2, 4, 4]
    together = model.decode(sources, sampler, limits, **options_of(sampler, sources))
    for row, limit in enumerate(limits):
        source = sources[row : row + 1]
        alone = model.decode(source, sampler, [limit], **options_of(sampler, source))
        assert list(texts(alone, 0)) == list(texts(together, row))
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_eager_graph_compiled_and_saved_model_agree(sampler, tmp_path):
    model, sources = TableModel(), tf.range(SOURCES)
    limits = tf.constant([4, 1, 3, 0, 4, 2, 4, 4])

    def decode(sources, limits):
        options = options_of(sampler, sources) | {"max_length": LENGTH, "return_attention": True}
        return model.decode(sources, sampler, limits, **options)

    eager = decode(sources, limits)
    assert_same(tf.function(decode, jit_compile=True, autograph=False)(sources, limits), eager)
    module, any_batch = tf.Module(), tf.TensorSpec([None], tf.int32)
    module.decode = tf.function(
        lambda *args: decode(*args)._asdict(), [any_batch, any_batch], autograph=False
    )
    assert_same(module.decode(sources, limits).values(), eager)
    tf.saved_model.save(module, str(tmp_path))
    saved = tf.saved_model.load(str(tmp_path)).decode(sources, limits)
    assert_same([saved[field] for field in decoding.Decoded._fields], eager)


@pytest.mark.few(1)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("graph", [False, True])
def test_nothing_to_do(sampler, graph):
    model = TableModel()

    def decode(sources, limits):
        options = options_of(sampler, sources) | {"return_attention": True}
        return model.decode(sources, sampler, limits, **options)

    if graph:
        spec = tf.TensorSpec([None], tf.int32)
        decode = tf.function(decode, [spec, spec], autograph=False)
    n = sampler.num_return_sequences
    none = decode(tf.zeros([0], tf.int32), tf.zeros([0], tf.int32))
    assert none.token_ids.shape == (0, n, 1)
    assert none.attention["seen"].shape == (0, n, 1, 2)
    empty = decode(tf.zeros([2], tf.int32), tf.constant([0, 0]))
    assert empty.token_ids.numpy().tolist() == [[[PAD]] * n] * 2
    assert empty.log_probs[:, 0].numpy().tolist() == [0.0, 0.0]
    assert not empty.attention["seen"].numpy().any()


def test_the_loop_stops_when_every_row_is_finished():
    steps = []

    def step(tokens, state, context):
        steps.append(len(steps))
        end_now = tf.cast(len(steps) >= 3, tf.float32)
        logits = tf.constant([0.0, 0.0, 0.0, 5.0]) + 20 * end_now * tf.one_hot(END, 4)
        return tf.repeat(logits[None], tf.shape(tokens)[0], axis=0), state, None

    ids = {"start_id": START, "end_id": END}
    decoded = decoding.decode(step, (), (), "greedy", max_lengths=[1000, 1000], **ids)
    assert decoded.lengths.numpy().tolist() == [[2], [2]]
    assert len(steps) == 3


@pytest.mark.full
@pytest.mark.parametrize("return_attention", [False, True])
def test_a_step_is_traced_once(return_attention):
    traced = []

    def step(tokens, state, context):
        traced.append(tokens.shape)
        return 9.0 * tf.one_hot(tokens, 5), state, tf.ones([tf.shape(tokens)[0], 3])

    @tf.function
    def decode(limits):
        options = {"start_id": START, "end_id": END, "return_attention": return_attention}
        return decoding.decode(step, (), (), "greedy", max_lengths=limits, **options).lengths

    assert decode(tf.constant([2, 3])).numpy().tolist() == [[0], [0]]
    assert len(traced) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_logits_are_summed_in_float32(dtype):
    model = TableModel(dtype=tf.as_dtype(dtype).as_numpy_dtype)
    full = TableModel()
    full.logits = model.logits.astype("float32")
    args = (np.arange(SOURCES), decoding.BeamSampler(num_beams=2), [LENGTH] * SOURCES)
    assert_same(model.decode(*args)[:4], full.decode(*args)[:4])


@pytest.mark.few(3)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_end_their_row_only(sampler, bad):
    model, sources = TableModel(), np.array([0, 3])
    expected = model.decode(sources, sampler, [4, 4], **options_of(sampler, sources))
    model.logits[3] = bad
    decoded = model.decode(sources, sampler, [4, 4], **options_of(sampler, sources))
    assert_same([part[:1] for part in decoded[:4]], [part[:1] for part in expected[:4]])
    assert np.isneginf(decoded.log_probs[1]).all()
    assert (decoded.token_ids[1].numpy() == PAD).all()


def test_ends_that_double_as_start_or_padding_can_be_produced():
    def step(tokens, state, context):
        return 9.0 * tf.one_hot(tf.where(tokens == 3, 0, 3), 4), state, None

    decoded = decoding.decode(step, (), (), "greedy", start_id=0, end_id=0, max_lengths=[5])
    assert decoded.lengths.numpy().tolist() == [[1]]
    assert decoded.log_probs[0, 0] > -0.01


def test_first_tokens_take_the_place_of_the_start_and_may_come_again():
    def step(tokens, state, context):
        return 9.0 * tf.one_hot(tokens, 5), state, None  # repeats its input

    decoded = decoding.decode(
        step, (), (), "greedy", start_id=START, end_id=END, max_lengths=[2, 3],
        first_tokens=tf.constant([3, 4]),
    )  # fmt: skip
    assert decoded.token_ids[:, 0].numpy().tolist() == [[3, 3, 0], [4, 4, 4]]


def test_errors_name_the_way_out():
    model = TableModel()
    with pytest.raises(ValueError, match="RandomSampler.*needs `seeds`"):
        model.decode([0], "random", [4])
    with pytest.raises(ValueError, match=r"`seeds` \[batch=2, 2\]. Received: shape \(1, 2\)"):
        model.decode([0, 1], "random", [4, 4], seeds=[[1, 2]])
    with pytest.raises(ValueError, match="`max_lengths` must be"):
        model.decode([0], "greedy", 4)
    ids = {"start_id": START, "end_id": END, "max_lengths": [4]}

    def grows(tokens, state, context):
        return tf.zeros([1, 5]), tf.concat([state, state], axis=1), None

    with pytest.raises(ValueError, match=r"must keep shapes and dtypes.*\(1, 2\).*\(1, 4\)"):
        decoding.decode(grows, (), tf.zeros([1, 2]), "greedy", **ids)

    def blind(tokens, state, context):
        return tf.zeros([1, 5]), state, None

    with pytest.raises(ValueError, match="`step` returns None as its attention"):
        decoding.decode(blind, (), (), "greedy", return_attention=True, **ids)
