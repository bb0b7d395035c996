"""Work that is killed and resumed: `python killed.py TASK FOLDER [KILL]`, with KILL as JSON.

A kill is `{"at": name, "number": n}`: SIGKILL at the n-th call of a function, before it does
anything. With `"cut": true`, for `os.fsync`, the file is first cut in half.
"""

import contextlib
import gzip
import hashlib
import importlib
import json
import os
import pathlib
import signal
import sys
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

import zoo
from tests.zoo.conftest import PAIRS
from zoo.data import multi30k_files
from zoo.data.features import cache_features, load_features
from zoo.data.multi30k import load_multi30k
from zoo.models.backbone import Backbone
from zoo.serving import Endpoint, write_version
from zoo.storage import presets
from zoo.training import runs

EPOCHS = 3
OPTIONS = {"embedding_dim": 8, "encoder_units": 8, "decoder_units": 8}
PICTURES = 6
LINES = 2000


def training(folder):
    """Returns the best and the last weights of a model, the last log, and a tokenizer."""
    folder.mkdir(exist_ok=True)
    tokenizer = runs.tokenizer(folder / "tokenizer.json", [text for text, _ in PAIRS], 300)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    adam = keras.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5)
    model.compile(adam, "mse", run_eagerly=True)
    x = np.eye(4, dtype="float32")
    y = x.sum(axis=1, keepdims=True)
    model.fit(
        x,
        y,
        validation_data=(x, y),
        initial_epoch=runs.restore(model, folder),
        epochs=EPOCHS,
        callbacks=runs.callbacks(folder, "val_loss", "min"),
        verbose=0,
    )
    weights = []
    for name in (runs.BEST, f"backup/epoch-{EPOCHS}.weights.h5"):
        model.load_weights(folder / name)
        weights += [each.numpy() for each in [*model.weights, *adam.variables]]
    log = [[float(value) for value in row.values()] for row in runs.history(folder)]
    return [*weights, np.array(log), np.array(tokenizer.get_config()["merges"])]


def preparation(folder):
    """Returns sentences that were downloaded and prepared."""
    upstream = folder.parent / "upstream"
    upstream.mkdir(exist_ok=True)
    pinned = {}
    for language in ("en", "de"):
        text = "".join(f"{language} {number}.\n" for number in range(LINES)).encode()
        content = gzip.compress(text, mtime=0)
        (upstream / f"train.{language}.gz").write_bytes(content)
        pinned[f"train.{language}.gz"] = hashlib.sha256(content).hexdigest(), len(content)
    with (
        mock.patch.dict(multi30k_files.CHECKSUMS, pinned),
        mock.patch.object(multi30k_files, "URL", f"file://{upstream}/"),
    ):
        batches = load_multi30k("en-de", "train", folder).batch(LINES).as_numpy_iterator()
    return [text.astype(str) for texts in batches for text in texts]


def features(folder):
    """Returns annotation vectors of some pictures."""
    keras.utils.set_random_seed(1)
    images = [
        {
            "name": f"{number}.png",
            "image": tf.io.encode_png(np.full((8, 8, 3), 40 * number, "uint8")).numpy(),
            "captions": ["a"],
        }
        for number in range(PICTURES)
    ]
    backbone = Backbone("MobileNetV2", ["block_6_expand_relu"], image_size=32, weights=None)
    cache_features(backbone, images, folder, shards=PICTURES, batch_size=1)
    return [each["annotations"] for each in load_features(folder).as_numpy_iterator()]


def export(folder):
    """Returns the answer of the exported versions, which must all agree."""
    endpoint = Endpoint(lambda x: {"y": 2 * x}, [tf.TensorSpec([None], name="x")])
    write_version(folder, [], {"serving_default": endpoint})
    versions = [each for each in folder.iterdir() if each.name.isdecimal()]
    served = [tf.saved_model.load(str(each)).signatures["serving_default"] for each in versions]
    results = [serve(x=tf.constant([1.5]))["y"].numpy() for serve in served]
    assert np.all(np.array(results) == results[0])
    return results[:1]


def preset(folder):
    """Returns the weights of two presets, a folder and an archive."""
    tokenizer = zoo.ByteBPETokenizer([])
    model = zoo.load("luong_nmt", weights=None, tokenizer=tokenizer, **OPTIONS)
    for number, weight in enumerate(model.core.weights):
        weight.assign(np.full(weight.shape, number / 8))
    paths = folder / "toy", folder / "toy.zip"
    card = {"task": "translation", "architecture": "luong_nmt", "description": "A toy"}
    card |= {"data": {"name": "Toy"}, "quality": [], "training": {}}
    for path in paths:
        if not path.exists():
            presets.save(model, path, card)
    with mock.patch.dict(os.environ, KERAS_HOME=str(folder / "keras")):
        return [each for path in paths for each in zoo.load(str(path)).core.get_weights()]


TASKS = {each.__name__: each for each in (training, preparation, features, export, preset)}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def calling(at, number, then=die, cut=False):
    """Calls a function at the n-th call of another function inside the `with` block.

    Args:
        at: Name of the other function, with its module and class.
        number: Number of the call, from 1.
        then: The function to call.
        cut: Whether to first cut in half the file that the other function is called with.
    """
    owner, _, name = at.rpartition(".")
    original, calls = getattr(_named(owner), name), 0

    def counting(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == number:
            if cut:
                os.ftruncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
            then()
        return original(*arguments, **options)

    with mock.patch(at, counting):
        yield


def _named(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        module, _, member = name.rpartition(".")
        return getattr(importlib.import_module(module), member)


if __name__ == "__main__":
    task, folder, *kill = sys.argv[1:]
    print("ready", flush=True)
    with calling(**json.loads(kill[0])) if kill else contextlib.nullcontext():
        TASKS[task](pathlib.Path(folder))
