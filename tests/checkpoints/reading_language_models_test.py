"""Language models that embed texts, in folders of sentence-transformers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import safetensors.torch  # noqa: E402
import tokenizers  # noqa: E402

from tests.checkpoints import tiny  # noqa: E402
from zoo.readers.text.reading import read_tokenizer  # noqa: E402

PROMPTS = {"query": "The dogs: ", "document": ""}
GEMMA = {
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "use_bidirectional_attention": True,
}


def save(folder, family, kind, special, pooling, sizes=(), **settings):
    """Writes a tiny embedder.

    Args:
        folder: The folder.
        family, kind, **settings: As for `tiny.save`.
        special: The tokens in front of and behind a text.
        pooling: The setting of the pooling that is true.
        sizes: Numbers of outputs of dense layers, which have no bias.

    Returns:
        The model and the tokenizer of transformers, and the dense layers.
    """
    theirs, _ = tiny.save(folder, family, kind, **settings)
    path = folder / "tokenizer.json"
    pieces = tokenizers.Tokenizer.from_file(str(path))
    front, behind = special
    pieces.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{front} $A {behind}".strip(),
        special_tokens=[(each, pieces.token_to_id(each)) for each in special if each],
    )
    pieces.save(str(path))
    kinds = ["Transformer", "Pooling", *["Dense"] * len(sizes), "Normalize"]
    places = ["", *(f"{place + 1}_{kind}" for place, kind in enumerate(kinds[1:]))]
    modules = [
        {"idx": idx, "path": place, "type": f"sentence_transformers.models.{kind}"}
        for idx, (place, kind) in enumerate(zip(places, kinds, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    told = {"pooling_mode_cls_token": False, pooling: True, "include_prompt": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told))
    told = {"prompts": PROMPTS, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(told))
    layers, inputs = [], 16
    for place, size in zip(places[2:], sizes, strict=False):
        layer = torch.nn.Linear(inputs, size, bias=False)
        layers.append(layer)
        (folder / place).mkdir()
        told = {"in_features": inputs, "out_features": size, "bias": False}
        told["activation_function"] = "torch.nn.modules.linear.Identity"
        (folder / place / "config.json").write_text(json.dumps(told))
        tensors = {"linear.weight": layer.weight.detach()}
        safetensors.torch.save_file(tensors, folder / place / "model.safetensors")
        inputs = size
    return theirs, pieces, layers


@torch.no_grad()
def vectors(theirs, pieces, pool, layers, texts):
    """Returns what sentence-transformers computes, one text after the other."""
    found = []
    for text in texts:
        ids = torch.tensor([pieces.encode(text).ids])
        x = pool(theirs(ids).last_hidden_state[0])
        for layer in layers:
            x = layer(x)
        found.append((x / x.norm()).numpy())
    return np.stack(found)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen")
    end = "<|endoftext|>"  # which also pads, as in Qwen3 Embedding
    kind, pooling = ("Qwen3", "ForCausalLM"), "pooling_mode_lasttoken"
    return folder, *save(folder, *kind, ("", end), pooling, num_hidden_layers=1)


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gemma")
    saved = save(
        folder,
        "Gemma3Text",
        "TextModel",
        ("<bos>", "<eos>"),
        "pooling_mode_mean_tokens",
        (24, 10),
        **GEMMA,
    )
    return folder, *saved


@pytest.mark.usefixtures("eagerly")
def test_the_last_token_of_a_causal_model(qwen, tmp_path):
    folder, theirs, pieces, layers = qwen
    model = zoo.load(folder)
    assert isinstance(model, zoo.Embedder)
    assert model.prompts == PROMPTS
    texts = [*tiny.TEXTS, "", "with <|endoftext|> inside"]
    of_text = vectors(theirs.model, pieces, lambda x: x[-1], layers, texts)
    np.testing.assert_allclose(model.embed(texts), of_text, atol=1e-5)
    prompted = [PROMPTS["query"] + text for text in texts]
    of_query = vectors(theirs.model, pieces, lambda x: x[-1], layers, prompted)
    np.testing.assert_allclose(model.embed(texts, prompt="query"), of_query, atol=1e-5)
    found = model.search(texts[0], texts, k=2)
    best = np.sort(of_text @ of_query[0])[::-1][:2]
    np.testing.assert_allclose(found.similarities, best, atol=1e-5)

    model.save_to_preset(tmp_path / "preset")
    zoo.save_checkpoint(model, tmp_path / "saved")
    for saved in ("preset", "saved"):
        found = zoo.load(tmp_path / saved).embed(texts[:1])
        np.testing.assert_allclose(found, of_text[:1], atol=1e-5)
    again = transformers.AutoModel.from_pretrained(tmp_path / "saved")
    found = vectors(again, pieces, lambda x: x[-1], layers, texts)
    np.testing.assert_allclose(found, of_text, atol=1e-6)


@pytest.mark.usefixtures("eagerly")
def test_the_mean_of_tokens_that_see_one_another(gemma, tmp_path):
    """The windows reach two tokens to each side, and two dense layers follow."""
    folder, theirs, pieces, layers = gemma
    model = zoo.load(folder)
    expected = vectors(theirs, pieces, lambda x: x.mean(0), layers, tiny.TEXTS)
    np.testing.assert_allclose(model.embed(tiny.TEXTS), expected, atol=1e-5)
    assert model.core.config.vector_size == 10
    model.save_to_preset(tmp_path / "preset")
    zoo.save_checkpoint(model, tmp_path / "saved")
    for saved in ("preset", "saved"):
        found = zoo.load(tmp_path / saved).embed(tiny.TEXTS[:1])
        np.testing.assert_allclose(found, expected[:1], atol=1e-5)
    ids = np.array([pieces.encode(tiny.TEXTS[0]).ids])
    with torch.no_grad():
        told = theirs(torch.tensor(ids), output_attentions=True).attentions
    _, weights = model.core(ids, return_attention_scores=True)
    for ours, others in zip(weights, told, strict=True):
        np.testing.assert_allclose(ours, others, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_long_texts_are_read_in_parts(qwen):
    """Each part ends with the special token, and counts by its number of tokens."""
    folder, theirs, pieces, layers = qwen
    model = zoo.load(folder, max_tokens=6)
    text = tiny.TEXTS[3]
    ids = pieces.encode(text).ids
    *ids, end = ids
    parts = [[*ids[first : first + 5], end] for first in range(0, len(ids), 5)]
    with torch.no_grad():
        last = [theirs.model(torch.tensor([part])).last_hidden_state[0, -1] for part in parts]
    expected = np.average(np.stack(last), axis=0, weights=[len(part) for part in parts])
    expected /= np.linalg.norm(expected)
    np.testing.assert_allclose(model.embed([text, "a"])[0], expected, atol=1e-5)


@pytest.mark.full  # `tests/serving/embeddings_test.py` trains a smaller one
@pytest.mark.usefixtures("eagerly")
def test_it_learns_pairs(qwen):
    model = zoo.load(qwen[0])
    model.compile(keras.optimizers.Adam(0.01))
    questions, answers = tiny.TEXTS, tiny.TEXTS[::-1]
    before = model.evaluate(questions, answers, batch_size=4, verbose=0, return_dict=True)
    model.fit(questions, answers, batch_size=4, epochs=3, verbose=0)
    after = model.evaluate(questions, answers, batch_size=4, verbose=0, return_dict=True)
    assert after["loss"] < 0.5 * before["loss"]


@pytest.mark.full  # `tests/serving/embeddings_test.py` exports a smaller one
def test_exported_equals_in_memory(qwen, tmp_path):
    model = zoo.load(qwen[0])
    exported = tf.saved_model.load(str(model.export(tmp_path / "exported")))
    found = exported.signatures["query"](tf.constant(tiny.TEXTS))["embedding"]
    np.testing.assert_allclose(found, model.embed(tiny.TEXTS, prompt="query"), atol=1e-5)


def test_a_template_among_several_post_processors(gemma, tmp_path):
    definition = json.loads((gemma[0] / "tokenizer.json").read_text())
    of_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    steps = [{**of_bytes, "use_regex": False}, definition["post_processor"]]
    definition["post_processor"] = {"type": "Sequence", "processors": steps}
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    told = json.loads((gemma[0] / "tokenizer_config.json").read_text()) | {"add_bos_token": True}
    told["add_eos_token"] = True
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.opening_ids == (tokenizer.start_id,)
    assert tokenizer.closing_ids == (tokenizer.end_id,)
    told["add_eos_token"] = False
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match="says add_eos_token=False, and the template"):
        read_tokenizer(tmp_path)


def test_settings_that_are_not_implemented(gemma, tmp_path):
    folder = gemma[0]
    for path in folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "modules.json").unlink()
    with pytest.raises(ValueError, match="Gemma3TextModel, which is not implemented"):
        zoo.load(tmp_path)
    sizes = {"num_layers": 1, "size": 8, "num_heads": 2}
    tokenizer = zoo.ByteBPETokenizer([])
    with pytest.raises(ValueError, match="Unknown pooling 'first'"):
        zoo.load(
            "transformer_lm_embedding", weights=None, tokenizer=tokenizer, pooling="first", **sizes
        )
    with pytest.raises(ValueError, match=r"`projections` must .* Received: \{'units': 3\} among"):
        zoo.load(
            "transformer_lm_embedding",
            weights=None,
            tokenizer=tokenizer,
            projections=[{"units": 3}],
            **sizes,
        )


# ------------------------------------------------------------------------------ labels and numbers


@torch.no_grad()
def logits(theirs, pieces, texts):
    """Returns the logits of transformers, of one text or pair after the other."""
    inputs = [pieces(*([text] if isinstance(text, str) else text)) for text in texts]
    rows = [theirs(torch.tensor([each["input_ids"]])).logits[0] for each in inputs]
    return torch.stack(rows).numpy()


def inputs_with_pairs():
    return [*tiny.TEXTS, (tiny.TEXTS[0], tiny.TEXTS[2]), (tiny.TEXTS[2], tiny.TEXTS[1])]


@pytest.mark.few(1)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("family", sorted(set(tiny.WRITERS) - {"Granite"}))
def test_labels_are_those_of_transformers(family, tmp_path):
    names = {"id2label": {0: "x", 1: "y", 2: "z"}}
    theirs, pieces = tiny.save(tmp_path / "hf", family, "ForSequenceClassification", **names)
    model = zoo.load(tmp_path / "hf")
    assert model.labels == ["x", "y", "z"]
    texts = inputs_with_pairs()
    expected = keras.ops.softmax(logits(theirs, pieces, texts))
    singles, pairs = texts[: len(tiny.TEXTS)], texts[len(tiny.TEXTS) :]
    for some, rows in ((singles, expected[: len(singles)]), (pairs, expected[len(singles) :])):
        found = model.classify(some, return_probabilities=True)
        np.testing.assert_allclose(found.probabilities, rows, atol=1e-4)
    told = model.classify(singles, return_attention=True)
    for row, text in zip(told.attention, singles, strict=True):
        assert len(row) == len(pieces(text)["input_ids"])
        assert sum(row) == pytest.approx(1.0, abs=1e-4)
    zoo.save_checkpoint(model, tmp_path / "saved")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    found = keras.ops.softmax(logits(again, pieces, singles))
    np.testing.assert_allclose(found, expected[: len(singles)], atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("family", sorted(set(tiny.WRITERS) - {"Granite"}))
def test_a_new_head_learns_and_goes_to_transformers(family, tmp_path):
    kind = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    _, pieces = tiny.save(tmp_path / "hf", family, kind)
    model = zoo.load(tmp_path / "hf", labels=["long", "short"])
    texts, labels = [tiny.TEXTS[0], tiny.TEXTS[2]], ["long", "short"]
    model.compile(keras.optimizers.Adam(0.02))
    losses = model.fit(texts, labels, epochs=2, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
    expected = model.classify(texts, return_probabilities=True).probabilities
    model.save_to_preset(tmp_path / "preset")
    found = zoo.load(tmp_path / "preset").classify(texts, return_probabilities=True)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)
    zoo.save_checkpoint(model, tmp_path / "saved")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    assert again.config.id2label == {0: "long", 1: "short"}
    found = keras.ops.softmax(logits(again, pieces, texts))
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.usefixtures("eagerly")
def test_a_new_head_that_transformers_has_no_class_for_is_kept_in_a_preset(tmp_path):
    tiny.save(tmp_path / "hf", "Granite", "ForCausalLM")
    model = zoo.load(tmp_path / "hf", labels=["long", "short"])
    with pytest.raises(ValueError, match="no class of this .*save_to_preset"):
        zoo.save_checkpoint(model, tmp_path / "back")
    model.save_to_preset(tmp_path / "preset")
    texts = tiny.TEXTS[:1]
    expected = model.classify(texts, return_probabilities=True).probabilities
    again = zoo.load(tmp_path / "preset").classify(texts, return_probabilities=True)
    np.testing.assert_allclose(again.probabilities, expected, atol=1e-6)


@pytest.mark.usefixtures("eagerly")
def test_a_number_of_texts_and_pairs(tmp_path):
    """As of a reward model, or a reranker."""
    theirs, pieces = tiny.save(tmp_path, "Qwen2", "ForSequenceClassification", num_labels=1)
    model = zoo.load(tmp_path)
    assert isinstance(model, zoo.Scorer)
    texts = inputs_with_pairs()
    expected = logits(theirs, pieces, texts)[:, 0]
    singles = len(tiny.TEXTS)
    np.testing.assert_allclose(model.score(texts[:singles]), expected[:singles], atol=1e-4)
    np.testing.assert_allclose(model.score(texts[singles:]), expected[singles:], atol=1e-4)


@pytest.mark.usefixtures("eagerly")
def test_texts_that_end_with_the_padding_token(tmp_path):
    """The end token of GPT-2 often pads; transformers reads the token before it."""
    end = {"pad_token_id": 0, "eos_token_id": 0}
    theirs, pieces = tiny.save(tmp_path, "GPT2", "ForSequenceClassification", num_labels=1)
    theirs.config.update(end)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | end))
    texts = ["The cats", "The cats<|endoftext|>", "a<|endoftext|>The dogs<|endoftext|>", "a"]
    expected = logits(theirs, pieces, texts)[:, 0]
    np.testing.assert_allclose(zoo.load(tmp_path).score(texts), expected, atol=1e-4)


@pytest.mark.full  # a language model of a checkpoint and one of the zoo always get labels
@pytest.mark.usefixtures("eagerly")
def test_labels_for_an_embedder_and_for_a_stack_alone(gemma, tmp_path):
    theirs, pieces = tiny.save(tmp_path, "Llama", "Model")
    for folder, (stack, tokens) in ((gemma[0], gemma[1:3]), (tmp_path, (theirs, pieces))):
        model = zoo.load(folder, labels=["a", "b"])
        ids = tokens.encode("The cats")
        with torch.no_grad():
            last = stack(torch.tensor([getattr(ids, "ids", ids)])).last_hidden_state[0, -1]
        expected = keras.ops.softmax(last.numpy() @ model.core.output_layer.kernel)
        found = model.classify(["The cats"], return_probabilities=True)
        np.testing.assert_allclose(found.probabilities[0], expected, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_labels_for_a_language_model_of_the_zoo():
    model = zoo.load("transformer_lm_shakespeare", labels=["verse", "prose"])
    trained = zoo.load("transformer_lm_shakespeare").core
    ids = np.array([model.tokenizer.tokenize(["To be, or not"]).to_list()[0]])
    x, y = model.core.embed(ids, 0), trained.embed(ids, 0)
    np.testing.assert_allclose(x, y, atol=1e-6)
    for own, others in zip(model.core.blocks, trained.blocks, strict=True):
        for weight, other in zip(own.get_weights(), others.get_weights(), strict=True):
            np.testing.assert_array_equal(weight, other)
    assert model.classify("To be, or not") in {"verse", "prose"}


def test_a_kind_of_problem_without_labels():
    with pytest.raises(ValueError, match=r"goes with a new head: labels=\['one', 'another'\]"):
        zoo.load("transformer_lm_shakespeare", problem_type="multi_label_classification")


def test_tags_are_for_encoders(qwen):
    with pytest.raises(ValueError, match="for a text encoder token_classification"):
        zoo.load(qwen[0], labels=["O", "B"], problem_type="token_classification")
