"""`Translator.translate` against a plain loop over the model's steps, and what users give it."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo import decoding

MIXED = [
    "a man rides a bike",
    "",
    "🚲 über 9000 dogs",
    "\u00a0 \t\n",
    "the dog",
    "a child reads a very long book outside and two women sleep " * 3,
]


def teacher_forced_log_prob(model, source, token_ids):
    """Sum of the log-probabilities of tokens and end token, from one full forward pass."""
    tokenizer = model.tokenizer
    source_ids = tokenizer.tokenize([source]).to_list()[0] + [tokenizer.end_id]
    inputs = [tokenizer.start_id, *token_ids]
    logits = model.core({"source_ids": np.array([source_ids]), "target_ids": np.array([inputs])})
    log_probs = tf.nn.log_softmax(logits)[0].numpy()
    return sum(log_probs[step, token] for step, token in enumerate([*token_ids, tokenizer.end_id]))


def greedy_by_hand(model, text):
    """Text, token ids and attention of a plain Python loop over the model's steps."""
    tokenizer = model.tokenizer
    source_ids = tokenizer.tokenize([text]).to_list()[0] + [tokenizer.end_id]
    context, state = model.core.start(tf.constant([source_ids]), 100)
    step = tf.function(model.core.step, autograph=False)
    token, token_ids, attention = tokenizer.start_id, [], []
    while len(token_ids) < 2 * len(source_ids) + 10:
        logits, state, weights = step(tf.constant([token]), state, context)
        scores = logits.numpy()[0]
        scores[[tokenizer.pad_id, tokenizer.start_id]] = -np.inf
        token = int(scores.argmax())
        if token == tokenizer.end_id:
            break
        token_ids.append(token)
        attention.append(weights.numpy()[0])
    text = tokenizer.detokenize([token_ids]).numpy()[0].decode()
    return text, token_ids, np.array(attention)


# --------------------------------------------------------------------------- what users give it


def test_one_text_gives_one_text(bahdanau):
    assert bahdanau.translate("a man sleeps") == "ein mann schläft"


def test_a_list_gives_a_list_in_order(bahdanau, sources, targets):
    assert bahdanau.translate(sources[::-1]) == targets[::-1]
    assert bahdanau.translate(tuple(sources)) == targets


def test_no_texts_give_no_texts(bahdanau):
    assert bahdanau.translate([]) == []
    assert bahdanau.translate([], return_attention=True).attention == []


@pytest.mark.parametrize(
    "text", ["", " ", "\t\r\n", "\u00a0", "\u2003\u00a0 ", "\v\x85"], ids=ascii
)
def test_white_space_gives_nothing(bahdanau, text):
    assert bahdanau.translate(text) == ""


@pytest.mark.parametrize("method", ["predict", "__call__", "predict_on_batch"])
@pytest.mark.parametrize(
    "texts", [["a man"], np.array(["a man"]), tf.constant(["a man"]), {"source_ids": ["a man"]}]
)
def test_texts_where_numbers_belong_are_told_the_way(bahdanau, method, texts):
    with pytest.raises(ValueError, match="Translator takes batches of numbers .* `translate`"):
        getattr(bahdanau, method)(texts)


def test_predict_refuses_a_data_set_of_texts(bahdanau, dataset):
    with pytest.raises(ValueError, match="batches of numbers here. Received: .*string"):
        bahdanau.predict(dataset.batch(2))


@pytest.mark.filterwarnings("error")
def test_predict_gives_the_logits_of_batches(bahdanau, sources, targets, monkeypatch):
    monkeypatch.setattr(bahdanau, "run_eagerly", True)
    batches = bahdanau.batches(sources[:1], targets[:1])
    ((inputs, *_),) = batches
    for x in (inputs, batches):
        logits = bahdanau.predict(x, verbose=0)
        np.testing.assert_allclose(logits, bahdanau.core(inputs), atol=1e-5)


def test_each_sentence_of_a_text_is_translated(bahdanau, sources, targets):
    """The same as alone, whether the text is short or much longer than the model takes."""
    capitals = [source.capitalize() + "." for source in sources]
    alone = bahdanau.translate(capitals)
    assert bahdanau.translate(" ".join(capitals[:2])) == " ".join(alone[:2])
    assert bahdanau.translate("A man sleeps.\n\nthe dog eats") == f"{alone[0]}\n\n{targets[2]}"
    result = bahdanau.translate(["a man sleeps", " ".join(capitals * 50)])
    assert result == ["ein mann schläft", " ".join(alone * 50)]


def test_what_is_cut_is_told_and_not_lost(bahdanau):
    text = "a man sleeps, " * 60
    with pytest.warns(UserWarning, match="text at position 1 has a sentence of more than 32 tok"):
        result = bahdanau.translate(
            ["a man sleeps", text], max_source_length=32, return_attention=True
        )
    assert result.source_tokens[1].count("sleeps") == 60
    assert result.texts[1].count("ein mann") >= result.source_tokens[1].count("<end>") > 5
    with pytest.warns(UserWarning, match="max_source_length"):
        assert bahdanau.translate("x" * 300, max_source_length=64)


def test_sentences_of_a_text_do_not_see_each_other(bahdanau):
    """Attention is block-diagonal; each block is that of the sentence alone."""
    sentences = ["A man sleeps.", "The dog eats."]
    together = bahdanau.translate([" ".join(sentences)], return_attention=True)
    alone = bahdanau.translate(sentences, return_attention=True)
    (rows, columns), (more_rows, more_columns) = (each.shape for each in alone.attention)
    expected = np.zeros((rows + more_rows, columns + more_columns))
    expected[:rows, :columns], expected[rows:, columns:] = alone.attention
    np.testing.assert_allclose(together.attention[0], expected, atol=1e-5)
    assert together.tokens == [sum(alone.tokens, [])]
    assert together.source_tokens == [sum(alone.source_tokens, [])]
    np.testing.assert_allclose(together.log_probs, [alone.log_probs.sum()], rtol=1e-5)
    several = bahdanau.translate(sentences, num_return_sequences=3)
    joined = bahdanau.translate(" ".join(sentences), num_return_sequences=3)
    assert joined == [" ".join(each) for each in zip(*several, strict=True)]
    options = {"num_return_sequences": 3, "return_attention": True}
    several = bahdanau.translate(sentences, **options).log_probs
    joined = bahdanau.translate([" ".join(sentences)], **options).log_probs
    np.testing.assert_allclose(joined, several.sum(axis=0, keepdims=True), rtol=1e-5)


def test_equal_sentences_of_a_text_are_drawn_apart(bahdanau):
    text = bahdanau.translate("A dog. A dog.", sampler="random", temperature=3.0, max_length=9)
    alone = bahdanau.translate("A dog.", sampler="random", temperature=3.0, max_length=9)
    assert text.startswith(alone)
    assert text != f"{alone} {alone}"


@pytest.mark.parametrize("wrong", [0, 7, 5.0, None])
def test_max_source_length_must_be_a_number_of_tokens(bahdanau, wrong):
    with pytest.raises(ValueError, match="`max_source_length` must be an integer of at least 8"):
        bahdanau.translate(["a man"], max_source_length=wrong)


def test_max_source_length_stays_with_the_model(fresh_model, tmp_path):
    model = fresh_model("luong_nmt", max_source_length=40)
    assert model.twin().max_source_length == 40
    assert zoo.load(model.save_to_preset(tmp_path / "preset")).max_source_length == 40
    model.max_source_length = 50
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").max_source_length == 50


@pytest.mark.parametrize("text", ["👩‍👩‍👧 🚲", "e\u0301 \x00 \u202e", "\ud83d alone"], ids=ascii)
def test_any_str_has_a_translation(bahdanau, text):
    bahdanau.translate(text).encode("utf-8")


def test_half_a_surrogate_pair_counts_as_the_replacement_character(bahdanau):
    halves = ["a \ud800 man", "\udcff", "\ud83d\ude80 dog"]
    assert bahdanau.translate(halves) == bahdanau.translate(["a \ufffd man", "\ufffd", "🚀 dog"])


def test_a_dictionary_is_no_list_of_texts(bahdanau):
    with pytest.raises(ValueError, match="a str or a list of str.*dict"):
        bahdanau.translate({"en": ["a man"]})


@pytest.mark.parametrize("wrong", [b"bytes", 7, None, np.array("a man")])
def test_what_is_no_text_is_named_with_its_position(bahdanau, wrong):
    with pytest.raises(ValueError, match=f"{type(wrong).__name__} at position 1"):
        bahdanau.translate(["a man", wrong])
    with pytest.raises(ValueError, match=f"a str or a list of str.*{type(wrong).__name__}"):
        bahdanau.translate(wrong)


# ----------------------------------------------------------------- what a text gives, and nothing


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        pytest.param("bahdanau", "greedy", marks=pytest.mark.full),
        pytest.param("transformer", "greedy", marks=pytest.mark.full),
        pytest.param("bahdanau", None, marks=pytest.mark.full),
        pytest.param("transformer", None, marks=pytest.mark.full),
        pytest.param("luong", None, marks=pytest.mark.full),
    ],
)
def test_a_tiny_model_learns_the_pairs_by_heart(name, sampler, request, sources, targets):
    model = request.getfixturevalue(name)
    result = model.translate(sources, sampler=sampler, return_attention=True)  # compiled anyway
    assert result.texts == targets


@pytest.mark.parametrize(
    "name",
    [
        "bahdanau",
        pytest.param("luong", marks=pytest.mark.full),
        pytest.param("transformer", marks=pytest.mark.full),
    ],
)
def test_greedy_equals_a_plain_loop(name, request):
    model = request.getfixturevalue(name)
    for text in ["a man rides a bike", "🚲 über 9000 dogs"]:
        result = model.translate([text], sampler="greedy", return_attention=True)
        expected, token_ids, attention = greedy_by_hand(model, text)
        assert result.texts == [expected]
        assert result.tokens == model.tokenizer.pieces([token_ids])
        np.testing.assert_allclose(result.attention[0], attention, atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("sampler", ["greedy", None])
@pytest.mark.parametrize("name", ["transformer", "bahdanau"])
def test_log_prob_is_that_of_the_full_forward_pass(name, request, tokenizer, sources, sampler):
    model = request.getfixturevalue(name)
    result = model.translate(sources, sampler=sampler, return_attention=True)
    token_ids = tokenizer.tokenize(result.texts).to_list()
    expected = [
        teacher_forced_log_prob(model, *each) for each in zip(sources, token_ids, strict=True)
    ]
    np.testing.assert_allclose(result.log_probs, expected, atol=1e-4)


@pytest.mark.parametrize("sampler", ["greedy", None])
def test_the_other_texts_do_not_matter(bahdanau, sampler):
    def translate(texts, **options):
        return bahdanau.translate(texts, sampler, return_attention=True, **options).texts

    alone = [text for each in MIXED for text in translate([each])]
    assert translate(MIXED) == alone
    assert translate(MIXED, batch_size=2) == alone


def test_a_random_text_depends_on_seed_and_position_alone(bahdanau):
    def translate(texts, **options):
        return bahdanau.translate(texts, sampler="random", temperature=3.0, **options)

    together = translate(MIXED, seed=5)
    assert translate(MIXED, seed=5, batch_size=1) == together
    assert translate(MIXED[:1], seed=5) == together[:1]
    assert translate(MIXED, seed=6) != together


def test_batch_size_must_be_positive(bahdanau):
    with pytest.raises(ValueError, match="batch_size=0"):
        bahdanau.translate(["a man"], batch_size=0)


# -------------------------------------------------------------------------- samplers and options


@pytest.mark.full
def test_top_k_of_one_is_greedy(bahdanau):
    greedy = bahdanau.translate(MIXED, sampler="greedy")
    assert bahdanau.translate(MIXED, sampler="top_k", k=1, seed=3) == greedy
    assert bahdanau.translate(MIXED, sampler="top_p", p=1e-6, seed=3) == greedy
    assert bahdanau.translate(MIXED, sampler="beam", num_beams=1) == greedy


def test_a_sampler_may_be_an_object(bahdanau):
    options = {"num_beams": 5, "length_penalty": 0.5, "exact": False}
    by_name = bahdanau.translate(MIXED, sampler="beam", **options)
    assert bahdanau.translate(MIXED, sampler=decoding.BeamSampler(**options)) == by_name


def test_options_alone_change_the_default_sampler(bahdanau):
    two = decoding.BeamSampler(num_beams=2, length_penalty=1.0, exact=False)
    assert bahdanau.sampler(num_beams=2) == two
    shorter = dataclasses.replace(bahdanau.default_sampler, length_penalty=-2.0)
    expected = bahdanau.translate(MIXED, sampler=shorter)
    assert bahdanau.translate(MIXED, length_penalty=-2.0) == expected


def test_the_default_sampler_may_be_set_by_name(fresh_model):
    model = fresh_model("luong_nmt")
    model.default_sampler = "greedy"
    assert model.default_sampler == decoding.GreedySampler()
    with pytest.raises(ValueError, match="Did you mean 'greedy'"):
        model.default_sampler = "gready"


@pytest.mark.full
@pytest.mark.parametrize("jit_compile", [False, True])
def test_learned_positions_limit_what_is_translated_at_once(fresh_model, tokenizer, jit_compile):
    longest = 12
    model = fresh_model("transformer_nmt", position="learned", max_length=longest)
    (short,) = model.source_tokens(["a man sleeps"]).to_list()
    (cut,) = model.source_tokens(["a man sleeps " * 5], longest=longest).to_list()
    assert cut == [*(short[:-1] * 5)[: longest - 1], tokenizer.end_id]
    options = {"return_attention": True, "max_length": 40, "jit_compile": jit_compile}
    with pytest.warns(UserWarning, match="position 0 has a sentence of more than 12 tokens"):
        result = model.translate(["a man sleeps " * 5], "greedy", **options)
    words = [piece for piece in result.source_tokens[0] if piece != "<end>"]
    assert [word for word in words if word != "▁"] == ["a", "man", "sleeps"] * 5


def test_several_hypotheses_are_lists_the_best_first(bahdanau, sources, targets):
    several = bahdanau.translate(sources, num_return_sequences=3)
    assert [len(set(texts)) for texts in several] == [3] * len(sources)
    assert [texts[0] for texts in several] == bahdanau.translate(sources)
    assert bahdanau.translate("a man sleeps", num_return_sequences=3) == several[0]


def test_each_hypothesis_has_its_log_probability(bahdanau, sources):
    result = bahdanau.translate(sources[:2], num_return_sequences=3, return_attention=True)
    for source, texts, log_probs in zip(sources, result.texts, result.log_probs, strict=False):
        tokens = [bahdanau.tokenizer.tokenize([text]).to_list()[0] for text in texts]
        expected = [teacher_forced_log_prob(bahdanau, source, each) for each in tokens]
        np.testing.assert_allclose(log_probs, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "bean"}, "'beam'"),
        ({"sampler": "greedy", "temperature": 2.0}, "no option 'temperature'"),
        ({"temperature": 2.0}, "temperature.*sampler="),
        ({"sampler": decoding.GreedySampler(), "num_beams": 2}, "num_beams"),
        ({"sampler": "beam", "num_beams": 0}, "num_beams=0"),
        ({"sampler": "random", "seed": None}, "seed=None"),
        ({"max_length": 0}, "max_length=0"),
        ({"max_length": -1}, "max_length=-1"),
        ({"max_length": 2**31}, "an integer from 1 to 2147483647.*max_length=2147483648"),
    ],
)
def test_wrong_options_are_named(bahdanau, options, message):
    with pytest.raises(ValueError, match=message):
        bahdanau.translate(["a man"], **options)


@pytest.mark.parametrize("sampler", ["greedy", None])
def test_max_length_is_a_number_of_tokens(bahdanau, sampler):
    options = {"max_length": np.int64(3), "return_attention": True}
    result = bahdanau.translate(MIXED, sampler=sampler, **options)
    assert [len(tokens) for tokens in result.tokens] == [3, 0, 3, 0, 3, 3]


# ------------------------------------------------------------------------------------- attention


@pytest.mark.parametrize(
    ("name", "sampler"),
    [("bahdanau", None), pytest.param("transformer", "greedy", marks=pytest.mark.full)],
)
def test_attention_fits_the_tokens(name, sampler, request):
    result = request.getfixturevalue(name).translate(MIXED, sampler, return_attention=True)
    for attention, target, source in zip(
        result.attention, result.tokens, result.source_tokens, strict=True
    ):
        assert attention.shape == (len(target), len(source))
        assert attention.dtype == np.float32
        np.testing.assert_allclose(attention.sum(axis=1), 1.0, atol=1e-5)


def test_tokens_are_those_of_the_texts(bahdanau, tokenizer, sources):
    result = bahdanau.translate(sources, return_attention=True)
    assert result.texts == bahdanau.translate(sources)
    assert result.tokens == tokenizer.pieces(tokenizer.tokenize(result.texts))
    pieces = tokenizer.pieces(tokenizer.tokenize(sources))
    assert result.source_tokens == [[*text, "<end>"] for text in pieces]


def test_plot_draws_the_text_at_a_position(bahdanau, sources):
    result = bahdanau.translate(sources, return_attention=True)
    axes = result.plot(5).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == result.tokens[5]
    assert [label.get_text() for label in axes.get_xticklabels()] == result.source_tokens[5]
    np.testing.assert_array_equal(axes.images[0].get_array(), result.attention[5])


def test_what_cannot_be_drawn_is_told(bahdanau):
    result = bahdanau.translate(["a man", ""], return_attention=True)
    message = "`position` must be the index of an entry, of which the result has 2.*position=3"
    for show in (result.plot, lambda place: result.save_html("page.html", place)):
        with pytest.raises(ValueError, match=message):
            show(3)
    with pytest.raises(ValueError, match="index of an entry, .*position=0.0"):
        result.plot(0.0)
    with pytest.raises(ValueError, match="a translation which is not empty, to plot it.*=1"):
        result.plot(1)


@pytest.fixture(scope="module")
def of_two_layers(fresh_model):
    return fresh_model("transformer_nmt", num_layers=2)


def test_a_transformer_shows_every_layer_and_head(of_two_layers):
    maps = of_two_layers.attention("a man sleeps", "ein mann schläft")
    size = of_two_layers.core.config
    target, source = ["<start>", "ein", "mann", "schläft"], ["a", "man", "sleeps", "<end>"]
    for kind, queries, keys in (
        ("encoder", source, source),
        ("decoder", target, target),
        ("cross", target, source),
    ):
        of_kind = getattr(maps, kind)
        assert (of_kind.query_tokens, of_kind.key_tokens) == (queries, keys)
        assert of_kind.weights.shape == (size.num_layers, size.num_heads, 4, 4)
        np.testing.assert_allclose(of_kind.weights.sum(axis=-1), 1.0, atol=1e-5)
    future = np.triu(np.ones((4, 4), bool), 1)
    np.testing.assert_array_equal(maps.decoder.weights[..., future], 0.0)


def test_what_a_transformer_shows_is_what_it_translated_by(of_two_layers, monkeypatch):
    tokenizer = of_two_layers.tokenizer
    words = {
        tuple(ids) for ids in tokenizer.tokenize(["ein", "mann", "hunde", "spielen"]).to_list()
    }
    others = [[each] for each in range(tokenizer.vocabulary_size) if (each,) not in words]
    options = {"bad_words": others, "max_length": 6, "return_attention": True}
    result = of_two_layers.translate(["two dogs play"], "greedy", **options)
    assert len(result.tokens[0]) == 6
    monkeypatch.setattr(of_two_layers, "translate", {"two dogs play": result.texts[0]}.get)
    cross = of_two_layers.attention("two dogs play", result.texts[0]).cross
    average = cross.weights.mean(axis=(0, 1))
    tokens = len(result.tokens[0])
    np.testing.assert_allclose(average[:tokens], result.attention[0], atol=1e-5)
    assert of_two_layers.attention("two dogs play").cross.query_tokens == cross.query_tokens


def test_heads_are_drawn(of_two_layers):
    cross = of_two_layers.attention("a man sleeps", "ein mann").cross
    one, heads = cross.plot(layer=0, head=1), cross.plot(layer=0)
    np.testing.assert_array_equal(one.axes[0].images[0].get_array(), cross.weights[0, 1])
    for axes, weights in zip(heads.axes, cross.weights[0], strict=False):
        np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    with pytest.raises(ValueError, match="`layer` must be a layer from 0 to 1.*layer=2"):
        cross.plot(layer=2)
    with pytest.raises(ValueError, match="`head` must be a head from 0 to 1.*head=-3"):
        cross.plot(head=-3)


def test_a_recurrent_model_has_no_heads_to_show(bahdanau):
    with pytest.raises(ValueError, match="a single attention without heads.*return_attention=True"):
        bahdanau.attention("a man sleeps")


# ------------------------------------------------------------------------------------------- XLA


@pytest.mark.full  # exports and texts are also tested with XLA
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "sampler"), [("luong", "beam"), ("transformer", "beam"), ("transformer", "random")]
)
def test_compiled_by_xla_it_translates_alike(name, sampler, request):
    model = request.getfixturevalue(name)
    texts = ["a man sleeps", "", "two women ride bikes", "the dog", "🚲"]
    options = {"sampler": sampler, "return_attention": True, "max_length": 9, "batch_size": 3}
    expected = model.translate(texts, **options)
    found = model.translate(texts, **options, jit_compile=True)
    assert found.texts == expected.texts
    np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-4)
    for attention, of_plain in zip(found.attention, expected.attention, strict=True):
        np.testing.assert_allclose(attention, of_plain, atol=1e-5)


@pytest.mark.full
def test_a_shape_is_compiled_once(transformer, monkeypatch):
    traced = []
    start = transformer.core.start
    monkeypatch.setattr(
        transformer.core, "start", lambda *arguments: traced.append(0) or start(*arguments)
    )
    options = {"sampler": "top_k", "k": 3, "jit_compile": True}
    transformer.translate(["a man sleeps", "two dogs play"], **options)
    once = len(traced)
    assert once > 0
    transformer.translate(["two dogs", "the dog eats"], **options)
    assert len(traced) == once
