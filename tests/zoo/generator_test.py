"""The language model as a task: strings in, strings out, scores, streams, export."""

import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.conftest import LINE
from zoo import decoding
from zoo.data.windows import sliding_windows
from zoo.storage import presets
from zoo.tasks import continuation
from zoo.tasks.generating import GeneratingTask

PROMPTS = ["the quick", "", "lazy dog. the", "é" * 40, "jumps over the lazy dog. " * 8]
CONTEXT = 32


@pytest.fixture(scope="module")
def whole_texts(byte_tokenizer):
    """A model of texts that have a beginning and an end."""
    random.seed(2)
    model = zoo.load(
        "transformer_lm",
        weights=None,
        tokenizer=byte_tokenizer,
        num_layers=1,
        size=32,
        num_heads=2,
        context_length=16,
        dropout=0.0,
    )
    model.compile(keras.optimizers.Adam(0.01))
    texts = tf.data.Dataset.from_tensor_slices(["one two", "six"]).repeat(60)
    model.fit(texts, epochs=8, batch_size=8, verbose=0)
    return model


def by_hand(model, prompt, max_length):
    """Greedy text without a cache: each token is computed from the last tokens so far."""
    tokenizer = model.tokenizer
    ids = tokenizer.tokenize([model.opening + prompt]).values.numpy().tolist()
    context, stretch = model.core.context_length, model.core.context_length // 4
    start = len(ids)
    for step in range(max_length):
        if step % stretch == 0:
            first = max(0, len(ids) - (context - stretch + 1))
        logits = model.core(tf.constant([ids[first:]]), training=False).numpy()[0, -1]
        logits[[tokenizer.pad_id, tokenizer.start_id]] = -np.inf
        ids.append(int(logits.argmax()))
        if ids[-1] == tokenizer.end_id:
            break
    return tokenizer.detokenize([ids[start:]]).numpy()[0].decode()


# ------------------------------------------------------------------------------------- generation


def test_a_line_known_by_heart_goes_on(generator):
    expected = (LINE * 5)[len("the quick") :][:150]
    assert generator.generate("the quick", 150, "greedy") == expected


@pytest.mark.few(1)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_equals_a_plain_loop_without_a_cache(generator, prompt):
    assert generator.generate(prompt, 21, "greedy") == by_hand(generator, prompt, 21)


RULES = {
    "sampler": "top_k",
    "k": 3,
    "repetition_penalty": 1.3,
    "no_repeat_ngram_size": 9,
    "forced_first_token": 3 + ord("q"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options", [{"sampler": "greedy"}, {"seed": 3}, RULES, {"sampler": "top_p"}]
)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_stream_is_the_text(generator, prompt, options):
    expected = generator.generate(prompt, 45, **options)
    pieces = list(generator.stream(prompt, 45, **options))
    assert "".join(pieces) == expected
    assert len(pieces) > 20


def test_tokens_come_with_their_log_probs(generator, whole_texts):
    tokens = list(generator.stream_tokens("the qu", 3, "greedy", top=2, min_length=9))
    text = "".join(token.text for token in tokens)
    assert text == generator.generate("the qu", 3, "greedy")
    expected = generator.score("the qu" + text).log_probs[0][6:]
    np.testing.assert_allclose([token.log_prob for token in tokens], expected, atol=1e-4)
    for token in tokens:
        first, second = token.likely.items()
        assert first == (token.text, token.log_prob)
        assert first[1] > second[1]
    *_, last = whole_texts.stream_tokens("one tw", 9, "greedy", top=1)
    assert (last.text, last.content, last.is_end) == ("<end>", b"", True)
    assert list(last.likely) == ["<end>"]
    (odd,) = generator.stream_tokens("the", 1, "greedy", forced_first_token=3 + 0xC3, top=0)
    assert (odd.text, odd.content, odd.likely) == ("bytes:\\xc3", b"\xc3", {})
    assert odd.log_prob < -5  # the model's own, although it is forced


def test_rules_see_all_tokens_of_prompts_but_their_padding(generator, monkeypatch):
    """The padding of the tokenizer may be a token of texts, such as their end."""
    monkeypatch.setattr(GeneratingTask, "decode", lambda *_, **options: options["prompt_ids"])
    prompt = tf.constant([[-1, generator.tokenizer.pad_id, 9]])
    assert generator.decode(prompt).numpy().tolist() == [[-1, -1, 9]]
    monkeypatch.setattr(type(generator), "prompt_pad_id", -1)
    assert generator.decode(prompt).numpy().tolist() == prompt.numpy().tolist()


def test_a_stream_ends_where_no_token_is_left(generator, monkeypatch):
    lengths, uniforms = [], continuation.uniforms
    monkeypatch.setattr(continuation, "uniforms", lambda *x: lengths.append(x[1]) or uniforms(*x))
    every = [[token] for token in range(generator.tokenizer.vocabulary_size)]
    assert list(generator.stream_tokens("the", 10**6, "greedy", bad_words=every)) == []
    assert lengths == [CONTEXT // 4]  # not numbers for a million tokens


def test_same_seed_same_text_other_seed_other_text(generator):
    hot = decoding.RandomSampler(temperature=2.0)
    first, second, third = (generator.generate("e", 60, hot, seed=seed) for seed in (1, 1, 2))
    assert first == second != third


@pytest.mark.full  # `decoding/compiled_test` covers it
def test_another_temperature_compiles_nothing(generator, monkeypatch):
    model = zoo.TextGenerator(generator.core, generator.tokenizer, opening="\n")
    traced, step = [], model.core.step
    monkeypatch.setattr(model.core, "step", lambda *arguments: traced.append(0) or step(*arguments))
    texts, counts = set(), []
    for temperature in (0.9, 1.1, 3.0):
        options = {"sampler": "top_p", "p": temperature / 4, "temperature": temperature}
        text = model.generate("e", 20, **options)
        assert "".join(model.stream("e", 20, **options)) == text
        texts.add(text)
        counts.append(len(traced))
    assert len(texts) > 1
    assert counts[0] == counts[-1] > 0


def test_other_prompts_do_not_matter(generator):
    together = generator.generate(PROMPTS, 40, seed=5)
    assert together[0] == generator.generate(PROMPTS[:1], 40, seed=5)[0]
    assert generator.generate(PROMPTS, 40, seed=5, batch_size=2) == together


def test_a_random_text_has_the_numbers_of_one_long_draw(generator):
    """A text longer than a stretch goes on drawing and does not repeat the same numbers."""
    flat = zoo.TextGenerator(Flat(), generator.tokenizer, opening="\n")
    text = flat.generate("", 64, "random")
    stretch = CONTEXT // 4
    parts = [text[place : place + stretch] for place in range(0, len(text), stretch)]
    assert len(set(parts)) == len(parts)


class Flat:
    """A core that makes all letters from a to z equally likely."""

    context_length = CONTEXT
    dtype_policy = keras.DTypePolicy("float32")

    def start(self, prompt_ids, max_length):
        return (), (tf.constant(0),)

    def step(self, tokens, state, context):
        letters = tf.range(259) - 3
        is_letter = (letters >= ord("a")) & (letters <= ord("z"))
        logits = tf.where(is_letter, 0.0, -1e9)
        return tf.repeat(logits[None], tf.shape(tokens)[0], axis=0), state, None


@pytest.mark.full  # `loop_test` compiles every sampler
@pytest.mark.parametrize("sampler", ["random", "beam"])
def test_compiled_by_xla_it_generates_alike(generator, sampler):
    options = {"max_length": 12, "sampler": sampler}
    prompts = ["the q", "", "é"]  # two stretches begin with at most 16 tokens: one shape
    expected = generator.generate(prompts, **options)
    assert generator.generate(prompts, **options, jit_compile=True) == expected


@pytest.mark.full
def test_several_samplers_bring_no_warning(generator, caplog):
    """TensorFlow warns about functions that it traces often, and mistakes closures for one."""
    tf.get_logger().addHandler(caplog.handler)
    for k in range(2, 8):
        generator.generate("the q", 2, "top_k", k=k)
        list(generator.stream("the q", 2, "top_k", k=k))
    tf.get_logger().removeHandler(caplog.handler)
    assert "retracing" not in caplog.text


def test_a_list_gives_a_list_and_no_prompts_no_texts(generator):
    assert generator.generate([], 5) == []
    texts = generator.generate(["the quick"], 5, "greedy")
    assert texts == [generator.generate("the quick", 5, "greedy")] == [" brow"]


def test_a_text_ends_by_itself(whole_texts):
    assert whole_texts.generate("one ", 50, "greedy") == "two"
    assert "".join(whole_texts.stream("one ", 50, "greedy")) == "two"
    assert whole_texts.generate(["s", "one t"], 50, "greedy") == ["ix", "wo"]


@pytest.mark.full
def test_beam_search_returns_several(generator):
    texts = generator.generate("the quick", 8, "beam", num_beams=4, num_return_sequences=3)
    assert texts[0] == " brown f"
    assert len(set(texts)) == 3


@pytest.mark.usefixtures("eagerly")
def test_an_answer_sees_the_whole_conversation_and_ends_with_the_context(generator):
    """Unlike the continuation of a text, which sees the end of it."""
    chat = {"template": "{% for each in messages %}{{ each.content }}{% endfor %}"}
    model = zoo.TextGenerator(generator.core, generator.tokenizer, opening="\n", chat=chat)
    talk, other = (
        [{"role": "user", "content": text}] for text in ("qqq the lazy dog. the qu", "the")
    )
    answer, longer = model.continuations([talk, other], 12, "greedy")
    assert (answer.num_tokens, answer.is_ended, longer.num_tokens) == (9, False, 12)
    ids = np.concatenate([model.conversation_ids(talk), model.tokens(answer.text)[1:]])
    logits = model.core(ids[None, :CONTEXT], training=False).numpy()[0, -9:, 3:]
    assert (logits.argmax(-1) + 3).tolist() == ids[-9:].tolist()
    assert "".join(model.stream(talk, 12, "greedy")) == answer.text


# ------------------------------------------------------------------------------------ stop strings


@pytest.mark.few(1)
@pytest.mark.parametrize("stop", ["over", ["lazy", "over"], ["x", "over", "jumps over"]])
def test_a_text_ends_before_a_stop_string(generator, stop):
    stops = [stop] if isinstance(stop, str) else stop
    whole = generator.generate("the quick", 100, "greedy")
    expected = whole[: min(whole.find(each) for each in stops)]
    assert generator.generate("the quick", 100, "greedy", stop=stop) == expected
    assert "".join(generator.stream("the quick", 100, "greedy", stop=stop)) == expected


def test_a_stop_string_that_never_comes_takes_nothing_away(generator):
    whole = generator.generate("the quick", 30, "greedy")
    for stop in ("zebra", whole[-1] + "!"):
        assert generator.generate("the quick", 30, "greedy", stop=stop) == whole
        assert "".join(generator.stream("the quick", 30, "greedy", stop=stop)) == whole


def test_generation_stops_early(generator, monkeypatch):
    stretches = []
    compiled = generator._continuation._compiled_stretch
    counted = lambda *given: stretches.append(given) or compiled(*given)  # noqa: E731
    monkeypatch.setattr(generator._continuation, "_compiled_stretch", counted)
    generator.generate("the quick", 1000, "greedy", stop="brown")
    assert len(stretches) == 1


# ------------------------------------------------------------------------------------------ scores


def test_score_is_that_of_the_full_forward_pass(generator):
    texts = ["the quick", LINE, "x"]
    scores = generator.score(texts)
    for text, log_probs, tokens, perplexity in zip(
        texts, scores.log_probs, scores.tokens, scores.perplexity, strict=True
    ):
        ids = generator.tokenizer.tokenize(["\n" + text]).values.numpy()
        inputs, labels, weights = sliding_windows(ids, CONTEXT)
        logits = generator.core(inputs).numpy().astype("float64")
        every = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        expected = np.take_along_axis(every, labels[..., None], axis=-1)[..., 0][weights > 0]
        np.testing.assert_allclose(log_probs, expected, atol=1e-4)
        assert len(log_probs) == len(tokens) == len(text)
        assert perplexity == pytest.approx(np.exp(-expected.mean()), rel=1e-4)


def test_an_end_that_counts_is_scored(whole_texts):
    scores = whole_texts.score(["six", ""])
    assert [len(each) for each in scores.log_probs] == [4, 1]
    assert scores.tokens[0][-1] == "<end>"
    assert scores.perplexity[0] < 2 < scores.perplexity[1]


def test_a_text_without_tokens_has_no_perplexity(generator):
    scores = generator.score("")
    assert scores.tokens == [[]]
    assert np.isnan(scores.perplexity).all()


def test_what_is_known_is_more_probable(generator):
    known, unknown = generator.score([LINE, LINE[::-1]]).perplexity
    assert known < 1.5 < unknown


def test_evaluate_counts_each_token_once(generator):
    text = LINE * 3
    found = generator.evaluate(text, return_dict=True, verbose=0)
    assert found["perplexity"] == pytest.approx(generator.score(text).perplexity[0], rel=1e-4)
    for batch_size in (1, 7):
        again = generator.evaluate(text, batch_size=batch_size, return_dict=True, verbose=0)
        for metric in ("perplexity", "token_accuracy"):  # Keras' loss is a mean over batches
            assert again[metric] == pytest.approx(found[metric], rel=1e-4)


def test_a_data_set_is_the_same_as_a_list(generator):
    texts = [LINE, "the dog", "é"]
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    expected = generator.evaluate(texts, return_dict=True, verbose=0)
    assert generator.evaluate(dataset, return_dict=True, verbose=0) == expected
    np.testing.assert_array_equal(generator.tokens(dataset), generator.tokens(texts))


@pytest.mark.filterwarnings("error:Your input ran out of data")
def test_windows_of_a_data_set_last_for_as_many_steps_as_wanted(fresh_model, byte_tokenizer):
    model = fresh_model("transformer_lm", tokenizer=byte_tokenizer, opening="\n")
    model.compile("adam", run_eagerly=True)
    texts = tf.data.Dataset.from_tensor_slices(["the dog"])
    assert len(model.batches(texts, batch_size=2, shuffle=True)) == 1
    model.fit(texts, batch_size=2, steps_per_epoch=3, verbose=0)
    assert int(model.optimizer.iterations) == 3
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"`x` must be a finite data set.*leave out repeat"):
            method(texts.repeat())


def test_what_fit_learns_from_is_every_text(generator, whole_texts):
    ids = [3 + each for each in b"\nab\ncd"]
    np.testing.assert_array_equal(generator.tokens(["ab", "cd"]), ids)
    ids = [1, *[3 + each for each in b"ab"], 2, 1, 3 + ord("c"), 2]
    np.testing.assert_array_equal(whole_texts.tokens(["ab", "c"]), ids)


def test_validation_data_is_measured_as_by_evaluate(generator):
    model = zoo.TextGenerator(generator.core, generator.tokenizer, opening="\n")
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    history = model.fit(LINE * 2, epochs=1, validation_data=[LINE], verbose=0).history
    expected = model.evaluate(LINE, return_dict=True, verbose=0)
    assert history["val_loss"][-1] == pytest.approx(expected["loss"], rel=1e-4)


def test_attention_looks_back_alone(fresh_model, byte_tokenizer):
    options = {"tokenizer": byte_tokenizer, "opening": "\n", "num_layers": 3}
    maps = fresh_model("transformer_lm", **options).attention("the quick")
    assert maps.weights.shape == (3, 2, 10, 10)
    assert len(maps.query_tokens) == 10
    np.testing.assert_allclose(maps.weights.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(maps.weights[..., np.triu(np.ones((10, 10), bool), 1)], 0.0)
    assert maps.plot(0, 1).axes


# ------------------------------------------------------------------------------ files and export


@pytest.mark.full
def test_it_comes_back_from_a_file(generator, tmp_path):
    generator.save(tmp_path / "toy.keras")
    loaded = keras.saving.load_model(tmp_path / "toy.keras")
    assert loaded.opening == "\n"
    iterations = generator.optimizer.iterations
    assert int(loaded.optimizer.iterations) == int(iterations) > 0
    assert loaded.evaluate(LINE, verbose=0) == pytest.approx(generator.evaluate(LINE, verbose=0))
    assert loaded.generate("the quick", 30, seed=1) == generator.generate("the quick", 30, seed=1)


def test_a_preset_keeps_tokenizer_sampler_and_opening(generator, tmp_path):
    model = zoo.TextGenerator(
        generator.core, generator.tokenizer, decoding.get("top_k", k=3), opening="\n"
    )
    card = {"task": "language model", "description": "", "data": {"name": ""}, "quality": []}
    presets.save(model, tmp_path / "toy", card)
    loaded = zoo.load(tmp_path / "toy")
    assert (loaded.default_sampler, loaded.opening) == (decoding.get("top_k", k=3), "\n")
    assert not loaded.tokenizer.prefix_space
    ids = generator.tokens(["the quick"])[None]
    np.testing.assert_array_equal(loaded.core(ids), generator.core(ids))


@pytest.fixture(scope="module")
def signature(generator, tmp_path_factory):
    path = generator.export(tmp_path_factory.mktemp("exported") / "toy", jit_compile=False)
    return tf.saved_model.load(str(path)).signatures["serving_default"]


@pytest.fixture(scope="module")
def decode(generator):
    """Decodes as many steps as the exported model: half a context."""
    steps, sampler = CONTEXT // 2, generator.default_sampler
    return lambda ids: generator.decode(ids, [[3, 0]], [steps], steps, sampler)


@pytest.mark.few(1)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_exported_equals_in_memory(signature, decode, generator, prompt):
    found = signature(text=tf.constant([prompt, "x"]), seed=tf.constant([3, 4]))
    ids = generator.tokenizer.tokenize(["\n" + prompt]).values.numpy()[-(CONTEXT // 2 + 1) :]
    padded = np.pad(ids, (1, 0), constant_values=generator.prompt_pad_id)
    decoded = decode(tf.constant(padded[None]))
    np.testing.assert_array_equal(found["token_ids"][0], decoded.token_ids[0, 0])
    np.testing.assert_allclose(found["log_prob"][0], decoded.log_probs[0, 0], atol=1e-4)
    text = generator.tokenizer.detokenize(decoded.token_ids[0]).numpy()[0]
    assert found["text"].numpy()[0] == text


def test_the_exported_model_reads_the_end_of_a_long_text(signature):
    texts = ["🚲" * 100_000 + LINE * 3, "🚲" * 32 + LINE * 3]
    long, short = signature(text=tf.constant(texts), seed=tf.constant([3, 3]))["text"].numpy()
    assert long == short


def test_an_empty_batch_gives_an_empty_batch(signature):
    found = signature(text=tf.zeros([0], tf.string), seed=tf.zeros([0], tf.int32))
    assert {name: each.shape[0] for name, each in found.items()} == {
        "text": 0,
        "token_ids": 0,
        "log_prob": 0,
    }


def test_a_config_is_json(generator):
    json.dumps(generator.settings)


# ------------------------------------------------------------------------------------ long texts


def test_of_a_long_prompt_only_the_end_is_read(generator, monkeypatch):
    prompt, read = LINE * 3000, []
    expected = generator.generate(prompt[-2000:], sampler="greedy", max_length=12)
    streams = generator._streams
    ids = streams.ids
    monkeypatch.setattr(streams, "ids", lambda text: read.append(len(text)) or ids(text))
    assert generator.generate(prompt, sampler="greedy", max_length=12) == expected
    assert "".join(generator.stream(prompt, sampler="greedy", max_length=12)) == expected
    assert max(read) <= 1000


def test_the_tokens_of_a_long_prompt_are_those_of_the_whole(fresh_model):
    tokenizer = zoo.ByteBPETokenizer.train([LINE * 9], vocabulary_size=300, prefix_space=False)
    model = fresh_model("transformer_lm", tokenizer=tokenizer)
    prompt = "🚲 " + LINE * 300
    room = model.core.context_length
    np.testing.assert_array_equal(
        model._prompts.of_text(prompt)[-room:], model._streams.ids(prompt)[-room:]
    )


def test_tokens_are_made_of_parts(generator, monkeypatch):
    text = "to be,  or\u00a0not \n to be " * 20
    whole = generator.tokens(text)
    monkeypatch.setattr("zoo.tasks.token_streams.CHARACTERS_AT_ONCE", 7)
    np.testing.assert_array_equal(generator.tokens(text), whole)


@pytest.mark.parametrize("at_once", [9, 1_000_000])
def test_texts_get_the_same_tokens_together_as_alone(generator, monkeypatch, at_once):
    monkeypatch.setattr("zoo.tasks.token_streams.CHARACTERS_AT_ONCE", at_once)
    texts = ["", "to be", "or", "", "not to be, that is", "é🚲"]
    alone = [generator._streams.ids(text).tolist() for text in texts]
    assert [ids.tolist() for ids in generator._streams.ids_of_each(texts)] == alone
