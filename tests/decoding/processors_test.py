"""Processors against those of transformers, and in the loop against list-based searches."""

import dataclasses
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from transformers.generation import logits_process

from zoo import decoding
from zoo.decoding import processors

PAD, START, END, OTHER_END = 0, 1, 2, 3
VOCABULARY, LENGTH = 9, 8
HISTORY = [[5, 6, 7, 5, 6], [4, 4, 4, 4, 4], [8, 5, 8, 7, 8]]
TABLE = 2 * np.random.default_rng(5).normal(size=(VOCABULARY, VOCABULARY)).astype("float32")

CASES = {
    "repetition_penalty=1.3": logits_process.RepetitionPenaltyLogitsProcessor(1.3),
    "repetition_penalty=0.8": logits_process.RepetitionPenaltyLogitsProcessor(0.8),
    "no_repeat_ngram_size=1": logits_process.NoRepeatNGramLogitsProcessor(1),
    "no_repeat_ngram_size=2": logits_process.NoRepeatNGramLogitsProcessor(2),
    "no_repeat_ngram_size=3": logits_process.NoRepeatNGramLogitsProcessor(3),
    "no_repeat_ngram_size=7": logits_process.NoRepeatNGramLogitsProcessor(7),
    "min_length=4": logits_process.MinNewTokensLengthLogitsProcessor(2, 4, [END, OTHER_END], "cpu"),
    "min_length=3": logits_process.MinNewTokensLengthLogitsProcessor(2, 3, [END, OTHER_END], "cpu"),
    "bad_words=[[7], [5, 6, 4], [8, 8]]": logits_process.NoBadWordsLogitsProcessor(
        [[7], [5, 6, 4], [8, 8]]
    ),
}


def of_text(text):
    """The processor of an option such as `"min_length=4"`."""
    _, (processor,) = processors.split_options(eval(f"dict({text})"))
    return processor


@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_transformers(case):
    scores = np.random.default_rng(0).normal(size=(3, VOCABULARY)).astype("float32")
    expected = CASES[case](torch.tensor(HISTORY), torch.tensor(scores)).numpy()
    later = np.pad(HISTORY, [(0, 0), (2, 3)], constant_values=processors.NOTHING)
    progress = decoding.Progress(tf.constant(later, tf.int32), 7, 3, (END, OTHER_END))
    np.testing.assert_allclose(of_text(case)(tf.constant(scores), progress), expected, rtol=1e-6)


@pytest.mark.parametrize("step", [0, 1])
def test_bad_first_tokens_are_those_of_transformers(step):
    scores = np.random.default_rng(0).normal(size=(3, VOCABULARY)).astype("float32")
    theirs = logits_process.SuppressTokensAtBeginLogitsProcessor([5, 7], begin_index=2)
    expected = theirs(torch.full((3, 2 + step), 4), torch.tensor(scores)).numpy()
    progress = decoding.Progress(tf.fill([3, LENGTH], 4), step, step, (END,))
    found = decoding.BadFirstTokens([5, 7, 70])(tf.constant(scores), progress)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("step", [0, 1])
def test_a_forced_first_token_is_that_of_transformers(step):
    history = torch.full((3, 1 + step), 4)  # in transformers it includes the start token
    scores = torch.zeros(3, VOCABULARY)
    expected = logits_process.ForcedBOSTokenLogitsProcessor(6)(history, scores).numpy()
    progress = decoding.Progress(tf.fill([3, LENGTH], 4), step, step, (END,))
    found = decoding.ForcedFirstToken(6)(tf.zeros([3, VOCABULARY]), progress)
    np.testing.assert_array_equal(found, expected)


def test_renormalized_scores_are_those_of_transformers():
    scores = np.random.default_rng(0).normal(size=(3, VOCABULARY)).astype("float32")
    scores[0, 2:5] = -np.inf
    expected = logits_process.LogitNormalization()(None, torch.tensor(scores)).numpy()
    scores = np.append(scores, np.full((1, VOCABULARY), -np.inf, "float32"), axis=0)
    found = decoding.Renormalized()(tf.constant(scores), None).numpy()
    np.testing.assert_allclose(found[:3], expected, rtol=1e-5)
    np.testing.assert_array_equal(found[3], scores[3])  # a hypothesis without a way to go on


def test_scores_are_renormalized_last():
    last = decoding.Renormalized()
    default = decoding.get("beam", bad_words=[[5]], processors=[last])
    named = decoding.with_rules(decoding.get("beam", min_length=2), default)
    for sampler in (named, decoding.with_options(default, min_length=2)):
        assert {*sampler.processors[:2]} == {decoding.BadWords([[5]]), decoding.MinimumLength(2)}
        assert sampler.processors[2:] == (last,)


# ----------------------------------------------------------------------------------- in the loop


def step(tokens, state, context):
    return tf.gather(TABLE, tokens), state, None


def decode(sampler, prompts, jit_compile=False, **options):
    prompts = tf.constant(prompts)
    options |= {"start_id": START, "end_id": END, "max_length": LENGTH}
    before = tf.where(prompts == PAD, -1, prompts)
    options |= {"first_tokens": prompts[:, -1], "prompt_ids": before}

    @tf.function(jit_compile=jit_compile, autograph=False)
    def run():
        limits = tf.fill(prompts.shape[:1], LENGTH)
        return decoding.decode(step, (), (), sampler, max_lengths=limits, **options)[:3]

    return [each.numpy() for each in run()]


def beam_search(prompt, process, num_beams, ends, penalty=1.0):
    """Beam search with lists; one beam is greedy search, scored by the processed logits."""
    live, finished = [((), 0.0)], []
    for length in range(1, LENGTH + 1):
        candidates = []
        for text, total in live:
            history = (*prompt, *text)
            scores = TABLE[history[-1]].astype("float64")
            if num_beams == 1:
                scores = process(scores, history, len(text))
            allowed = [token for token in range(VOCABULARY) if token not in (PAD, START)]
            log_probs = scores - np.log(np.exp(scores).sum())
            if num_beams > 1:
                log_probs = process(log_probs, history, len(text))
            candidates += [((*text, token), total + log_probs[token]) for token in allowed]
        candidates.sort(key=lambda each: -each[1])
        live = [each for each in candidates if each[0][-1] not in ends][:num_beams]
        looked_at = candidates[: (1 + len(ends)) * num_beams if num_beams > 1 else 1]
        done = [(text[:-1], total) for text, total in looked_at if text[-1] in ends]
        if num_beams == 1 and done:
            live = []
        done += live if length == LENGTH else []
        finished += [(total / length**penalty, text) for text, total in done if total > -math.inf]
    return max(finished)[1]


def process(scores, history, step):
    """Repetition penalty 1.5, no repeated bigram, at least three tokens, and never 7 after 4."""
    scores = scores.copy()
    for token in set(history):
        scores[token] *= 1.5 if scores[token] < 0 else 1 / 1.5
    for first, second in zip(history, history[1:], strict=False):
        if first == history[-1]:
            scores[second] = -math.inf
    if step < 3:
        scores[[END, OTHER_END]] = -math.inf
    if history[-1] == 4:
        scores[7] = -math.inf
    return scores


OPTIONS = {
    "repetition_penalty": 1.5,
    "no_repeat_ngram_size": 2,
    "min_length": 3,
    "bad_words": [[4, 7]],
    "end_ids": [OTHER_END],
}
PROMPTS = [[4, 5, 4], [6, 7, 8], [8, 8, 5], [5, 5, 5]]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "jit_compile"),
    [
        ("greedy", False),
        ("beam", True),
        pytest.param("greedy", True, marks=pytest.mark.full),
        pytest.param("beam", False, marks=pytest.mark.full),
    ],
)
def test_a_search_is_that_of_lists(name, jit_compile):
    sampler = decoding.get(name, **OPTIONS)
    expected = [beam_search(each, process, sampler.num_beams, (END, OTHER_END)) for each in PROMPTS]
    tokens, lengths, _ = decode(sampler, PROMPTS, jit_compile)
    found = [tuple(row[0, : length[0]]) for row, length in zip(tokens, lengths, strict=True)]
    assert found == expected
    assert min(map(len, expected)) >= 3
    plain, _, _ = decode(decoding.get(name), PROMPTS)
    assert (plain != tokens).any()


def test_a_text_does_not_depend_on_longer_prompts_beside_it():
    sampler = decoding.get("beam", **OPTIONS)
    alone, _, alone_scores = decode(sampler, [[4, 5]])
    beside, _, scores = decode(sampler, [[PAD, 4, 5], [6, 7, 8]])
    np.testing.assert_array_equal(beside[:1], alone)
    np.testing.assert_allclose(scores[:1], alone_scores, rtol=1e-6)


def test_drawn_tokens_keep_the_rules():
    sampler = decoding.get("random", temperature=5.0, no_repeat_ngram_size=1, end_ids=[OTHER_END])
    seeds = tf.stack([tf.range(200), tf.zeros(200, tf.int32)], 1)
    tokens, lengths, _ = decode(sampler, [[4, 5]] * 200, seeds=seeds)
    for row, length in zip(tokens[:, 0], lengths[:, 0], strict=True):
        text = [4, 5, *row[:length]]
        assert len(set(text)) == len(text)
        assert OTHER_END not in text
    assert len({tuple(row) for row in tokens[:, 0]}) > 10


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["greedy", "beam"])
@pytest.mark.parametrize("token", [PAD, START])
def test_a_token_that_is_forced_may_be_any(name, token):
    tokens, lengths, _ = decode(decoding.get(name, forced_first_token=token), PROMPTS[:1])
    assert tokens[0, 0, 0] == token
    assert lengths[0, 0] > 1


def test_nothing_is_made_of_nan():
    def broken(tokens, state, context):
        return tf.gather(TABLE, tokens) + math.nan, state, None

    for name in ("greedy", "beam"):
        sampler = decoding.get(name, forced_first_token=5, repetition_penalty=2.0)
        decoded = decoding.decode(
            broken, (), (), sampler, start_id=START, end_id=END, max_lengths=[3]
        )
        assert decoded.lengths.numpy().tolist() == [[0]]
        assert decoded.log_probs.numpy().tolist() == [[-math.inf]]


# --------------------------------------------------------------------------------------- options


@keras.saving.register_keras_serializable(package="processors_test")
@dataclasses.dataclass(frozen=True)
class Never(decoding.Processor):
    token: int

    def __call__(self, scores, progress):
        return tf.where(tf.range(tf.shape(scores)[1]) == self.token, -math.inf, scores)


def test_a_processor_of_ones_own():
    sampler = decoding.get("greedy", processors=[Never(4), Never(5)])
    tokens, _, _ = decode(sampler, PROMPTS)
    assert not np.isin(tokens, [4, 5]).any()


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_the_start_token_counts_as_in_transformers(name):
    """BART and NLLB start their texts with the end token, which a penalty then puts off."""

    def step(tokens, state, context):
        return tf.repeat([[0.0, 0.0, 3.0, 0.0, 2.9]], len(tokens), axis=0), state, None

    options = {"start_id": END, "end_id": END, "max_lengths": [1]}
    for penalty, expected in ((1.01, 0), (2.0, 1)):
        sampler = decoding.get(name, repetition_penalty=penalty)
        assert decoding.decode(step, (), (), sampler, **options).lengths == [[expected]]


@pytest.mark.usefixtures("eagerly")
def test_the_start_token_may_have_no_logit():
    rules = {"repetition_penalty": 2.0, "no_repeat_ngram_size": 1, "end_ids": [OTHER_END]}
    found = decoding.decode(
        lambda tokens, state, context: (tf.one_hot([7], VOCABULARY), state, None),
        (),
        (),
        decoding.get("greedy", **rules),
        start_id=VOCABULARY + 1,
        end_id=END,
        max_lengths=[1],
    )
    assert found.token_ids.numpy().tolist() == [[[7]]]


@pytest.mark.usefixtures("eagerly")
def test_padding_that_also_ends_texts_counts_in_prompts():
    options = {"first_tokens": tf.constant([END]), "pad_id": END, "max_lengths": [3]}
    sampler, ids = decoding.get("greedy", bad_words=[[END, 7]]), {"start_id": START, "end_id": END}

    def step(tokens, state, context):
        return tf.one_hot([7], VOCABULARY), state, None

    for prompt, expected in (([5, 4], 7), ([5, END], 0)):
        found = decoding.decode(step, (), (), sampler, prompt_ids=[prompt], **ids, **options)
        assert found.token_ids[0, 0, 0] == expected


def test_a_config_makes_an_equal_sampler():
    sampler = decoding.get("top_p", p=0.8, processors=[Never(4)], **OPTIONS)
    config = keras.saving.serialize_keras_object(sampler)
    assert decoding.get(config) == sampler
    assert len({sampler, decoding.get(config)}) == 1
    plain = decoding.get("beam")
    assert "processors" not in repr(plain)
    assert "processors" not in plain.get_config()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repetition_penalty": 0}, "`repetition_penalty` must be a number above 0"),
        ({"no_repeat_ngram_size": 0}, "`no_repeat_ngram_size` must be an integer of at least 1"),
        ({"min_length": 1.5}, "`min_length` must be an integer"),
        ({"forced_first_token": "de"}, "`forced_first_token` must be the id"),
        ({"bad_words": ["damn"]}, r"`bad_words` must be sequences of .*tokenize\(texts\)\.to_list"),
        ({"bad_first_tokens": []}, "`bad_first_tokens` must be ids of tokens"),
        ({"end_ids": 7}, "`end_ids` must be a sequence"),
        ({"processors": 7}, "`processors` must be a sequence"),
        ({"beams": 3}, "Did you mean 'num_beams'"),
        ({"p": 2}, "no option 'p'. .* 'p' goes with sampler='top_p'"),
    ],
)
def test_errors_tell_the_way_out(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        decoding.with_options(decoding.GreedySampler(), **options)
