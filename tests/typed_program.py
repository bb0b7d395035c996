"""A user's program, for the type checker only: see `types_test.py`."""

import pathlib
from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np

import zoo
from keras_attention import EncoderBlock, MultiHeadAttention
from zoo.tasks.match_results import Findings
from zoo.tasks.text_results import AttentionMaps, TranslationAttention

text, texts, path = "A man rides a bike.", ["A dog.", "Two cats."], pathlib.Path("dog.jpg")


def translate() -> None:
    model = zoo.load("transformer_nmt_multi30k_en_de")
    assert_type(model, zoo.Translator)
    assert_type(model.translate(text), str)
    assert_type(model.translate(texts, "beam", num_beams=4, max_length=20, batch_size=8), list[str])
    result = model.translate(texts, return_attention=True)
    assert_type(result, zoo.Translation)
    assert_type(result.texts, list[str])
    assert_type(result.attention[0], np.ndarray)
    assert_type(result.save_html("page.html"), pathlib.Path)
    assert_type(model.translate(texts, num_return_sequences=3), Any)
    assert_type(model.attention(text), TranslationAttention)
    assert_type(model.export("exported/nmt", sampler="greedy", jit_compile=False), pathlib.Path)


def train() -> None:
    tokenizer = zoo.ByteBPETokenizer.train(texts, vocabulary_size=300)
    assert_type(tokenizer, zoo.ByteBPETokenizer)
    model = zoo.load("luong_nmt", weights=None, tokenizer=tokenizer, encoder_units=64)
    assert_type(model, zoo.Translator)
    model.compile(jit_compile=False)
    model.fit(texts, texts, batch_size=8, validation_data=(texts, texts), epochs=2)
    model.evaluate(texts, texts, return_dict=True)
    assert_type(model.save_to_preset("mine", data={"name": "Mine"}, quality={"BLEU": 30.0}), str)


def other_tasks() -> None:
    captioner = zoo.load("show_attend_tell_flickr8k")
    assert_type(captioner.caption(path), str)
    assert_type(captioner.caption([path, b"..."], return_attention=True), zoo.Caption)
    reviews = zoo.load("text_encoder_imdb")
    assert_type(reviews.classify(text), str)
    assert_type(reviews.classify(texts), list[str])
    writer = zoo.load("transformer_lm_shakespeare")
    assert_type(writer.generate("ROMEO:", 50, temperature=0.8, stop="\n"), str)
    assert_type(writer.stream("ROMEO:"), Iterator[str])
    assert_type(writer.score(texts), zoo.TextScores)
    assert_type(writer.attention(text), AttentionMaps)
    matcher = zoo.load("clip_flickr8k")
    assert_type(matcher.embed(images=[path]), np.ndarray)
    assert_type(matcher.classify(path, ["a dog", "a cat"]), str)
    assert_type(matcher.search(text, "photos", k=3), Findings)
    assert_type(matcher.search(path, [path, b"..."]).names, list[Any])
    assert_type(zoo.load("text_encoder_masked_imdb", labels=["a", "b"]), zoo.Classifier)
    assert_type(zoo.load("transformer_lm_shakespeare", labels=["a", "b"]), zoo.Classifier)


def layers() -> None:
    MultiHeadAttention(8, 64, use_bias=["query", "value"], attention_axes=(1, 2))
    EncoderBlock(8, 64, use_bias={"feed_forward"}, mask="causal")


def any_checkpoint(embedder: zoo.Embedder, tagger: zoo.Tagger, answerer: zoo.Answerer) -> None:
    assert_type(zoo.load("hf://organization/name"), Any)
    assert_type(embedder.embed(texts, prompt="query"), np.ndarray)
    assert_type(embedder.search(text, texts, k=3), Findings)
    assert_type(embedder.search(path, embedder.embed([path])).similarities, np.ndarray)
    assert_type(tagger.tag(text)[0].label, str)
    assert_type(answerer.answer(text, texts).score, float)
    assert_type([model.name for model in zoo.list_models()], list[str])
