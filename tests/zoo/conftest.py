"""A toy language pair, tiny translators that know it by heart, presets, fresh interpreters."""

import os
import pathlib
import random
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

import zoo
from zoo.atomic import whole
from zoo.storage import archives, presets

ROOT = pathlib.Path(__file__).parents[2]

PAIRS = [
    ("a man sleeps", "ein mann schläft"),
    ("a woman sleeps", "eine frau schläft"),
    ("the dog eats", "der hund frisst"),
    ("two dogs play", "zwei hunde spielen"),
    ("a child reads a book", "ein kind liest ein buch"),
    ("a man rides a bike", "ein mann fährt rad"),
    ("two women ride bikes", "zwei frauen fahren rad"),
    ("the child plays outside", "das kind spielt draußen"),
]
TINY_RNN = {"embedding_dim": 16, "encoder_units": 16, "decoder_units": 16}
TINY_TRANSFORMER = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "dropout": 0.0}
TINY = {
    "bahdanau_nmt": TINY_RNN,
    "luong_nmt": TINY_RNN,
    "transformer_nmt": TINY_TRANSFORMER,
    "transformer_lm": {**TINY_TRANSFORMER, "context_length": 32},
}
LINE = "the quick brown fox jumps over the lazy dog. "
REPETITIONS = 80


@pytest.fixture(scope="session")
def pairs():
    return PAIRS


@pytest.fixture(scope="session")
def sources():
    return [source for source, _ in PAIRS]


@pytest.fixture(scope="session")
def targets():
    return [target for _, target in PAIRS]


@pytest.fixture(scope="session")
def dataset(sources, targets):
    return tf.data.Dataset.from_tensor_slices((sources, targets))


@pytest.fixture(scope="session")
def tokenizer(sources, targets):
    return zoo.ByteBPETokenizer.train([*sources, *targets], vocabulary_size=400)


@pytest.fixture(scope="session")
def fresh_model(tokenizer):
    """Makes a tiny model with random weights, the same ones each time."""

    def make(architecture="bahdanau_nmt", dtype="float32", **overrides):
        random.seed(1)
        options = {**TINY[architecture], "tokenizer": tokenizer, **overrides}
        return zoo.load(architecture, weights=None, dtype=dtype, **options)

    return make


@pytest.fixture(scope="session")
def bahdanau(fresh_model, sources, targets, tmp_path_factory):
    """A translator that knows two lists by heart, trained by the first worker that needs it."""
    model = fresh_model("bahdanau_nmt")
    model.compile(keras.optimizers.Adam(0.02))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")  # shared by all workers, if there are any
    path = tmp_path_factory.getbasetemp().parent / f"bahdanau-{run}.weights.h5"
    if run and path.exists():
        model.load_weights(path)
        return model
    model.fit(sources * REPETITIONS, targets * REPETITIONS, batch_size=8, verbose=0)
    if run:
        with whole(path) as unfinished:
            model.save_weights(unfinished)
    return model


@pytest.fixture(scope="session")
def luong(fresh_model, dataset):
    """A translator that knows a data set by heart."""
    model = fresh_model("luong_nmt")
    model.compile(keras.optimizers.Adam(0.02))
    repeated = dataset.repeat(REPETITIONS)
    model.fit(repeated, batch_size=8, verbose=0)
    return model


@pytest.fixture(scope="session")
def transformer(fresh_model, dataset):
    """A Transformer that knows the pairs by heart."""
    model = fresh_model("transformer_nmt")
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(dataset.repeat(REPETITIONS), batch_size=8, verbose=0)
    return model


@pytest.fixture(scope="session")
def byte_tokenizer():
    return zoo.ByteBPETokenizer([], prefix_space=False)


@pytest.fixture(scope="session")
def generator(fresh_model, byte_tokenizer):
    """A language model that knows one line by heart, learned as a passage of a longer text."""
    random.seed(1)
    options = {**TINY["transformer_lm"], "opening": "\n"}
    model = zoo.load("transformer_lm", weights=None, tokenizer=byte_tokenizer, **options)
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(LINE * 400, epochs=5, batch_size=16, verbose=0)
    return model


@pytest.fixture(scope="session")
def card():
    entry = {"metric": "BLEU", "split": "test", "value": 99.5, "protocol": "beam; signature"}
    return {
        "task": "translation",
        "architecture": "bahdanau_nmt",
        "description": "A toy",
        "data": {"name": "Toy en-de", "pair": "en-de"},
        "quality": [entry],
        "training": {"command": "pytest", "recipe": {"architecture": "bahdanau_nmt"}},
    }


@pytest.fixture(scope="session")
def preset(bahdanau, card, tmp_path_factory):
    """Folder of a preset of `bahdanau` in half precision, like the presets of the package."""
    folder = tmp_path_factory.mktemp("presets") / "toy"
    presets.save(bahdanau, folder, card, dtype="float16")
    return folder


@pytest.fixture(scope="session")
def toy_folder(fresh_model, tmp_path_factory):
    """Folder of a preset of a translator that was not trained."""
    folder = tmp_path_factory.mktemp("saved") / "toy"
    fresh_model("luong_nmt").save_to_preset(folder, "A toy")
    return folder


@pytest.fixture(scope="session")
def toy_archive(toy_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "toy.zip"
    archives.pack(toy_folder, path)
    return path


@pytest.fixture
def download_cache(tmp_path, monkeypatch):
    """Folder of unpacked presets, empty before each test."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return tmp_path / "keras" / "presets"


@pytest.fixture(scope="session")
def run_python():
    """Runs a fresh interpreter where `import zoo` works."""

    def run(*arguments, **options):
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, **options)

    return run
