"""Tiny models of every task, and a server of two of them."""

import functools
import random
import types

import numpy as np
import pytest

import zoo
from tests.serving.client import serving
from tests.zoo.pictures import CHANNELS, SIZE, MeanColors
from zoo.server import Limits, LoadedModel

SENTENCES = ["a man sleeps", "der hund frisst", "two women ride bikes"]
TINY_TRANSFORMER = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32}
OPTIONS = {
    "luong_nmt": {"embedding_dim": 16, "encoder_units": 16, "decoder_units": 16},
    "transformer_nmt": {**TINY_TRANSFORMER, "sampler": "greedy"},
    "transformer_lm": {**TINY_TRANSFORMER, "context_length": 32},
    "show_attend_tell": {"channels": CHANNELS, "size": 16, "units": 16},
    "blip": {**TINY_TRANSFORMER, "image": TINY_TRANSFORMER, "patch_size": SIZE // 2},
}


@pytest.fixture(scope="session")
def model():
    """Makes a tiny model by its name, the same one each time."""

    @functools.cache
    def make(name, dtype="float32", **options):
        random.seed(1)
        if name == "transformer_lm":
            tokenizer = zoo.ByteBPETokenizer([], prefix_space=False)
        else:
            tokenizer = zoo.ByteBPETokenizer.train(SENTENCES, vocabulary_size=300)
        if name == "show_attend_tell":
            options = {"backbone": MeanColors(), **options}
        if name == "blip":
            options = {"reader": zoo.ImageReader(SIZE), **options}
        options = {**OPTIONS[name], **options}
        made = zoo.load(name, weights=None, tokenizer=tokenizer, dtype=dtype, **options)
        if hasattr(made.core, "output_bias"):  # only those bytes that are characters alone
            bias = np.full(tokenizer.vocabulary_size, -100.0)
            bias[[2, *range(3 + 32, 3 + 127), *range(259, len(bias))]] = 0.0
            made.core.output_bias.assign(bias)
        return made

    return make


@pytest.fixture(scope="module")
def served(model):
    """Loads a tiny model as a server does."""
    return functools.cache(lambda name: LoadedModel(name, model(name)))


@pytest.fixture(scope="module")
def named(model):
    """Gives a tiny model without its signatures, for protocols that do not use them."""
    return lambda name: types.SimpleNamespace(name=name, task=model(name), refresh=list)


@pytest.fixture(scope="module")
def client(served):
    models = [served("luong_nmt"), served("transformer_lm")]
    with serving(models, Limits(body_bytes=10_000, text_bytes=2_000)) as found:
        yield found
