"""The exported SavedModel answers as `translate` wherever it is loaded, and is never partial."""

import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from zoo.serving import Endpoint, export, require_free, write_version

TEXTS = ["a man sleeps", "", "two women ride bikes", " ", "🚲 unseen", "the dog eats " * 20]
DOUBLE = {"serving_default": Endpoint(lambda x: {"y": 2 * x}, [tf.TensorSpec([None], name="x")])}
RANDOM = {"sampler": "random", "temperature": 3.0, "repetition_penalty": 1.2, "min_length": 3}


@pytest.fixture(scope="module")
def versions(request, bahdanau, tmp_path_factory):
    """Two exports to one folder: a translator, then something small."""
    path = tmp_path_factory.mktemp("exported") / "nmt"
    jit_compile = request.config.getoption("--full")  # `saved_model_test` always compiles
    return [bahdanau.export(path, jit_compile=jit_compile), write_version(path, [], DOUBLE)]


@pytest.fixture(scope="module")
def signatures(versions):
    return tf.saved_model.load(str(versions[0])).signatures


@pytest.fixture(scope="module")
def random_signature(bahdanau, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "random"
    version = bahdanau.export(path, **RANDOM, jit_compile=False)
    return tf.saved_model.load(str(version)).signatures["serving_default"]


def decoded(strings):
    return [string.decode() for string in strings.numpy()]


def without_padding(token_ids):
    return [row[row != 0].tolist() for row in token_ids]


# ------------------------------------------------------------------------------------- signatures


def test_versions_are_counted(versions):
    assert [version.name for version in versions] == ["1", "2"]
    assert (versions[0] / "saved_model.pb").is_file()
    assert sorted(path.name for path in versions[0].parent.iterdir()) == ["1", "2"]


OUTPUTS = {"text": (1, tf.string), "token_ids": (2, tf.int32), "log_prob": (1, tf.float32)}
EXPLAIN = {"tokens": (2, tf.string), "source_tokens": (2, tf.string), "attention": (3, tf.float32)}


@pytest.mark.parametrize(
    ("name", "expected"), [("serving_default", OUTPUTS), ("explain", {**OUTPUTS, **EXPLAIN})]
)
def test_signatures_are_dense_with_the_batch_first(signatures, name, expected):
    signature = signatures[name]
    _, inputs = signature.structured_input_signature
    assert inputs == {"text": tf.TensorSpec([None], tf.string, name="text")}
    found = signature.structured_outputs
    assert all(isinstance(spec, tf.TensorSpec) for spec in found.values())
    assert {key: (spec.shape.rank, spec.dtype) for key, spec in found.items()} == expected
    assert all(spec.shape[0] is None for spec in found.values())


# ---------------------------------------------------------------------------------------- answers


def test_peers_row_16_it_answers_as_translate(signatures, bahdanau, tokenizer):
    expected = bahdanau.translate(TEXTS, return_attention=True)
    outputs = signatures["serving_default"](text=tf.constant(TEXTS))
    assert decoded(outputs["text"]) == expected.texts
    assert tokenizer.pieces(without_padding(outputs["token_ids"].numpy())) == expected.tokens
    np.testing.assert_allclose(outputs["log_prob"], expected.log_probs, atol=1e-4)


def test_it_explains_as_translate(signatures, bahdanau):
    outputs = signatures["explain"](text=tf.constant(TEXTS))
    result = bahdanau.translate(TEXTS, return_attention=True)
    assert decoded(outputs["text"]) == result.texts
    for row, attention in enumerate(result.attention):
        found = outputs["attention"][row].numpy()
        rows, columns = attention.shape
        np.testing.assert_allclose(found[:rows, :columns], attention, atol=1e-4)
        assert not found[rows:].any()
        assert not found[:rows, columns:].any()


def test_pieces_spell_the_texts(signatures):
    outputs = signatures["explain"](text=tf.constant(TEXTS[:3]))
    spelled = decoded(tf.strings.reduce_join(outputs["source_tokens"], axis=1))
    assert [text.removeprefix(" ") for text in spelled] == TEXTS[:3]
    spelled = decoded(tf.strings.reduce_join(outputs["tokens"], axis=1))
    assert [text.removeprefix(" ") for text in spelled] == decoded(outputs["text"])


@pytest.mark.parametrize(
    "name",
    ["serving_default", "explain", pytest.param("serving_jit", marks=pytest.mark.full)],
)
def test_a_text_that_is_too_long_is_answered_with_none(signatures, bahdanau, name):
    """Too long in tokens, or in bytes alone; the other texts are answered as without it."""
    fits = " ".join(["a"] * (bahdanau.max_source_length - 1))
    assert bahdanau.source_lengths([fits]).numpy() == [bahdanau.max_source_length]
    longer, huge = fits + " a", "a man " * 1_000_000
    outputs = signatures[name](text=tf.constant([longer, "a man sleeps", huge]))
    alone = signatures[name](text=tf.constant(["a man sleeps"]))
    assert decoded(outputs["text"]) == ["", "ein mann schläft", ""]
    assert outputs["log_prob"].numpy()[[0, 2]].tolist() == [0.0, 0.0]
    assert {key: each.shape[1:] for key, each in outputs.items()} == {
        key: each.shape[1:] for key, each in alone.items()
    }, "the other texts are padded for it"
    assert decoded(signatures[name](text=tf.constant([fits]))["text"]) != [""]


@pytest.mark.parametrize("name", ["serving_default", "explain"])
def test_an_empty_batch_gives_an_empty_batch(signatures, name):
    outputs = signatures[name](text=tf.zeros([0], tf.string))
    assert {tensor.shape[0] for tensor in outputs.values()} == {0}


@pytest.mark.full  # `generator_test` exports a random sampler, too
def test_a_random_sampler_takes_a_seed_for_each_text(random_signature, bahdanau):
    _, inputs = random_signature.structured_input_signature
    assert inputs["seed"] == tf.TensorSpec([None], tf.int32, name="seed")
    texts, seeds = ["the dog eats"] * 4 + ["a man sleeps"], [1, 2, 3, 1, 7]
    outputs = random_signature(text=tf.constant(texts), seed=tf.constant(seeds))
    answers = decoded(outputs["text"])
    assert answers == [
        bahdanau.translate(text, seed=seed, **RANDOM)
        for text, seed in zip(texts, seeds, strict=True)
    ]
    assert len(set(answers[:3])) == 3


def test_one_hypothesis_is_exported(bahdanau, monkeypatch):
    sampler = []
    monkeypatch.setattr(
        "zoo.tasks.generating.serving_endpoints", lambda task, given: sampler.append(given)
    )
    monkeypatch.setattr("zoo.serving.write_version", lambda *arguments: None)
    bahdanau.export("nowhere", sampler="beam", num_beams=3, num_return_sequences=2)
    assert (sampler[0].num_beams, sampler[0].num_return_sequences) == (3, 1)


# --------------------------------------------------------------------------------------- contents


def test_weights_are_written_once(versions, bahdanau):
    written = sum(path.stat().st_size for path in (versions[0] / "variables").glob("*.data-*"))
    assert written < 1.3 * 4 * bahdanau.count_params()


def test_ops_are_core_ops_and_call_no_python(versions):
    saved = saved_model_pb2.SavedModel.FromString((versions[0] / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    ops = {node.op for node in nodes} - {each.signature.name for each in graph.library.function}
    assert "MatMul" in ops
    assert {op for op in ops if not hasattr(tf.raw_ops, op)} == set()
    assert {op for op in ops if "PyFunc" in op or "Custom" in op or "TFText" in op} == set()


@pytest.mark.full  # `saved_model_test` runs an export without Python
def test_peers_row_15_it_runs_where_the_zoo_is_not_installed(versions, run_python, bahdanau):
    script = (
        "import json, sys\n"
        "sys.modules['keras_attention'] = sys.modules['zoo'] = None\n"
        "import tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "texts = serve(text=tf.constant(json.loads(sys.argv[2])))['text'].numpy()\n"
        "print(json.dumps([text.decode() for text in texts]))\n"
    )
    result = run_python("-c", script, versions[0], json.dumps(TEXTS))
    assert result.returncode == 0, result.stderr.decode()
    assert json.loads(result.stdout) == bahdanau.translate(TEXTS)


@pytest.mark.full
def test_the_command_line_tool_of_tensorflow_runs_it(versions, run_python):
    tool = "tensorflow.python.tools.saved_model_cli"
    options = ["--tag_set", "serve", "--signature_def", "serving_default"]
    options += ["--input_exprs", 'text=[b"the dog eats"]']
    result = run_python("-m", tool, "run", "--dir", versions[0], *options)
    assert result.returncode == 0, result.stderr.decode()
    assert b"b'der hund frisst'" in result.stdout


# --------------------------------------------------------------------------------------- versions


def test_a_number_that_is_left_out_is_not_filled(tmp_path):
    for name in ["7", "08x", "²", ".unfinished-1"]:
        (tmp_path / name).mkdir()
    version = write_version(tmp_path, [], DOUBLE)
    assert version == tmp_path / "8"
    loaded = tf.saved_model.load(str(version)).signatures["serving_default"]
    assert loaded(x=tf.constant([1.5]))["y"].numpy() == [3.0]


def test_an_endpoint_is_traced_once(tmp_path):
    layer, traced = keras.layers.Dense(1, kernel_initializer="ones"), []
    layer.build((None, 2))

    def function(x):
        traced.append(x)
        return {"y": layer(x)}

    inputs = [tf.TensorSpec([None, 2], name="x")]
    version = write_version(tmp_path, [layer], {"serving_default": Endpoint(function, inputs)})
    assert len(traced) == 1
    loaded = tf.saved_model.load(str(version)).signatures["serving_default"]
    assert loaded(x=tf.constant([[1.5, 2.0]]))["y"].numpy() == [[3.5]]


def test_no_rows_are_answered_with_none(tmp_path):
    layer = keras.layers.Conv2D(2, 3, strides=2)  # of which TensorFlow gets the shape wrong
    layer.build((None, None, None, 1))

    def function(x, text):
        places = layer(x)
        return {"y": tf.reshape(places + tf.zeros([2, 2, 2]), [-1, 8]), "text": text}

    inputs = [tf.TensorSpec([None, 5, 5, 1], name="x"), tf.TensorSpec([None], tf.string, "text")]
    version = write_version(tmp_path, [layer], {"serving_default": Endpoint(function, inputs)})
    serve = tf.saved_model.load(str(version)).signatures["serving_default"]
    for rows in (0, 2):
        x, text = np.ones((rows, 5, 5, 1), "float32"), ["a", "b"][:rows]
        found = serve(x=tf.constant(x), text=tf.constant(text, tf.string))
        assert found["y"].shape == (rows, 8)
        assert [each.decode() for each in found["text"].numpy()] == text
        if rows:
            np.testing.assert_allclose(found["y"], layer(x).numpy().reshape(rows, 8), atol=1e-6)


def test_a_server_may_read_it(tmp_path):
    version = write_version(tmp_path / "models" / "double", [], DOUBLE)
    assert version.stat().st_mode & 0o777 == 0o755


def test_the_slower_of_two_exports_takes_the_next_number(tmp_path, monkeypatch):
    rename = os.rename

    def rename_after_another(source, target):
        if target.name == "1":
            target.mkdir()
            (target / "saved_model.pb").touch()
        rename(source, target)

    monkeypatch.setattr(export.os, "rename", rename_after_another)
    assert write_version(tmp_path, [], DOUBLE) == tmp_path / "2"


def test_an_export_that_fails_leaves_no_version(tmp_path, monkeypatch):
    def write_half(saved, path, functions):
        (tmp_path / path / "saved_model.pb").write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", write_half)
    with pytest.raises(OSError, match="disk full"):
        write_version(tmp_path, [], DOUBLE)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_and_leaves_no_version(tmp_path):
    resource = pytest.importorskip("resource", reason="Windows has no limit of sizes")
    layer = keras.layers.Dense(100)
    layer.build((None, 100))
    endpoint = Endpoint(lambda x: {"y": layer(x)}, [tf.TensorSpec((None, 100), name="x")], [])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="could not be written. Is the disk full"):
            write_version(tmp_path, [layer], {"serving_default": endpoint})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["1", "20261124", "2/", "live/1"])
def test_a_version_holds_no_versions(tmp_path, name):
    live = tmp_path / "live" / "1"
    live.mkdir(parents=True)
    (live / "saved_model.pb").write_text("served")
    with pytest.raises(ValueError, match="is one version, or named like one.*Export to .*/"):
        write_version(f"{tmp_path}/{name}", [], DOUBLE)
    assert [path.name for path in live.iterdir()] == ["saved_model.pb"]
    assert [path.name for path in tmp_path.iterdir()] == ["live"]


def test_a_saved_model_holds_no_versions(tmp_path):
    (tmp_path / "saved_model.pb").write_text("served")
    with pytest.raises(ValueError, match="Export to another folder"):
        write_version(tmp_path, [], DOUBLE)


def test_a_file_cannot_hold_versions(tmp_path):
    path = tmp_path / "model"
    path.touch()
    with pytest.raises(ValueError, match="model is a file"):
        write_version(path, [], DOUBLE)


def test_a_folder_that_cannot_be_replaced_is_refused(tmp_path, monkeypatch):
    empty, link = tmp_path / "empty", tmp_path / "link"
    empty.mkdir()
    assert require_free(empty) == empty
    link.symlink_to(empty)
    with pytest.raises(ValueError, match="not a link.*link exists already"):
        require_free(link)
    monkeypatch.chdir(empty)
    for path in (".", empty):
        with pytest.raises(ValueError, match="the current folder.*exists already"):
            require_free(path)
