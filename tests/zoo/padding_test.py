"""The padding token is that of the tokenizer, whatever its id is."""

import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.models.text_encoder import TextEncoder
from zoo.models.transformer_lm import TransformerLanguageModel
from zoo.readers.text import Tokenizer
from zoo.readers.text.text_reader import TextReader

SIZES = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16, "dropout": 0.0}


def tokenizer(pad="<pad>", start="<s>"):
    """Its id 0 is a word, as in GPT-2."""
    special = ["<s>", "<pad>", "</s>"]
    vocabulary = {token: number for number, token in enumerate(["a", *special, "b", "c", "?"])}
    definition = {
        "model": {"type": "WordPiece", "vocab": vocabulary, "unk_token": "?"},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "added_tokens": [
            {"id": vocabulary[token], "content": token, "special": True} for token in special
        ],
    }
    return Tokenizer(definition, {"pad": pad, "start": start, "end": "</s>"})


@pytest.mark.few(2)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("name", ["text_encoder_embedding", "transformer_lm_embedding"])
@pytest.mark.parametrize("pad", ["<pad>", "</s>"])
def test_padding_does_not_count_and_words_do(name, pad):
    model = zoo.load(name, weights=None, tokenizer=tokenizer(pad), **SIZES)
    texts = ["b c", "b a c", "b c b c b c b c"]
    together = model.embed(texts)
    for text, found in zip(texts, together, strict=True):
        np.testing.assert_allclose(found, model.embed(text), atol=1e-6)
    assert np.abs(together[0] - together[1]).max() > 0.01  # the word with id 0


@pytest.mark.usefixtures("eagerly")
def test_texts_that_hold_the_padding_token():
    """Tokens keep their places, in training too, and the last one that is no padding decides."""
    model = zoo.load(
        "transformer_lm_labels", weights=None, tokenizer=tokenizer(), labels=["x", "y"], **SIZES
    )
    texts = ["b <pad> c", "c <pad>"]
    found = model.classify(texts, return_probabilities=True, return_attention=True)
    np.testing.assert_allclose([sum(row) for row in found.attention], 1.0, atol=1e-6)
    for ids, probabilities in zip(([4, 2, 5], [5]), found.probabilities, strict=True):
        x = model.core.blocks[0](model.core.embed(np.array([ids]), 0))
        logits = np.array(model.core.output_layer(model.core.norm(x)[:, -1]))[0]
        np.testing.assert_allclose(probabilities, np.exp(logits) / np.exp(logits).sum(), atol=1e-6)
    reader = TextReader(tokenizer(), 8)
    read, _ = reader.read(texts)
    (batch,) = reader.batched(tf.data.Dataset.from_tensor_slices((texts, [0, 1])), 2)
    np.testing.assert_array_equal(batch[0], read)


@pytest.mark.usefixtures("eagerly")
def test_nothing_to_read():
    """Without special tokens around them, empty texts have no token at all."""
    model = zoo.load("transformer_lm_score", weights=None, tokenizer=tokenizer(), **SIZES)
    assert model.score("") == 0.0
    np.testing.assert_array_equal(model.score([("", "")]), [0.0])


@pytest.mark.usefixtures("eagerly")
def test_a_prompt_may_hold_any_word():
    model = zoo.load("transformer_lm", weights=None, tokenizer=tokenizer(), **SIZES)
    prompts = ["a a b", "b"]
    texts = model.generate(prompts, max_length=4, sampler="greedy")
    ids = [[1, 0, 0, 4]]
    for _ in range(4):
        logits = np.array(model.core(np.array(ids))[0, -1])
        logits[[1, 2]] = -np.inf  # the start token and padding are never produced
        ids[0].append(int(np.argmax(logits)))
    assert texts[0] == model.texts_of(np.array([ids[0][4:]])).numpy()[0].decode()
    assert texts == [model.generate(each, max_length=4, sampler="greedy") for each in prompts]


@pytest.mark.usefixtures("eagerly")
def test_translations_do_not_depend_on_the_others():
    model = zoo.load("transformer_nmt", weights=None, tokenizer=tokenizer(), **SIZES)
    texts, options = ["b c", "b a c b c b c"], {"sampler": "greedy", "max_length": 4}
    together = model.translate(texts, **options)
    assert together == [model.translate(text, **options) for text in texts]
    assert model.core.config.pad_id == 2


def test_tokens_around_texts_that_are_missing():
    bare = tokenizer(start=None)
    with pytest.raises(ValueError, match="a start and an end token.*start_id=None, end_id=3"):
        zoo.load("text_encoder_embedding", weights=None, tokenizer=bare, **SIZES)


def test_a_core_with_another_padding_token_is_refused():
    core = TextEncoder(7, head="embedding", pooler=None, **SIZES)
    with pytest.raises(ValueError, match=r"a core with pad_id=0\. Create it with pad_id=2"):
        zoo.Embedder(core, tokenizer())
    core = TransformerLanguageModel(7, **SIZES)
    with pytest.raises(ValueError, match=r"a core with pad_id=0\. Create it with pad_id=-1"):
        zoo.TextGenerator(core, tokenizer("</s>"))
