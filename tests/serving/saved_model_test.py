"""What TF Serving does with an export: warm it up, run it without Python, batch it, compile it."""

import base64
import functools
import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.serving.conftest import OPTIONS
from tests.zoo.pictures import IMAGES
from zoo.readers.images import image_bytes
from zoo.serving import Endpoint, buckets, write_version

TEXTS = ["a man sleeps", "", "two women ride bikes " * 3]
PICTURES = [image_bytes(IMAGES[0]), b"none", image_bytes(IMAGES[1])]
REQUESTS = {  # what each model is asked
    "luong_nmt": {"text": TEXTS},
    "transformer_nmt": {"text": TEXTS},
    "transformer_lm": {"text": TEXTS, "seed": [1, 2, 3]},
    "show_attend_tell": {"image_bytes": PICTURES},
    "blip": {"image_bytes": PICTURES},
}
BY_C = ["luong_nmt", "transformer_lm", "show_attend_tell"]  # compiled by XLA through the C API
WARMUP = "assets.extra/tf_serving_warmup_requests"
DOUBLE = {
    "serving_default": Endpoint(
        lambda x: {"y": 2 * x}, [tf.TensorSpec([None], tf.float32, name="x")], [[[0.5]], [[1.5]]]
    )
}


@pytest.fixture(scope="module")
def version(model, tmp_path_factory):
    """Exports a model by name."""
    return functools.cache(
        lambda name: model(name).export(tmp_path_factory.mktemp("exported") / name)
    )


@pytest.fixture(scope="module")
def signatures(version):
    return functools.cache(lambda name: tf.saved_model.load(str(version(name))).signatures)


@pytest.fixture(scope="module")
def answers(signatures):
    """Returns a signature's answer to a model's request."""

    @functools.cache
    def answer(name, signature):
        request = {key: tf.constant(values) for key, values in REQUESTS[name].items()}
        return signatures(name)[signature](**request)

    return answer


# ------------------------------------------------------------------------------------- signatures


@pytest.mark.few(1)
@pytest.mark.parametrize("name", list(OPTIONS))
def test_compiled_equals_not_compiled(answers, name):
    expected, found = answers(name, "serving_default"), answers(name, "serving_jit")
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal(found["text"], expected["text"])
    np.testing.assert_array_equal(found["token_ids"], expected["token_ids"])
    np.testing.assert_allclose(found["log_prob"], expected["log_prob"], rtol=1e-4, atol=1e-4)


@pytest.mark.full
def test_sizes_beyond_the_buckets_are_answered(signatures):
    texts = tf.constant(["man " * 40] + ["a"] * 32)
    expected = signatures("luong_nmt")["serving_default"](text=texts)
    found = signatures("luong_nmt")["serving_jit"](text=texts)
    np.testing.assert_array_equal(found["text"], expected["text"])


@pytest.mark.full  # `test_xla_sees_few_shapes` begins with an empty batch
def test_an_empty_batch_gives_an_empty_batch(signatures):
    outputs = signatures("luong_nmt")["serving_jit"](text=tf.zeros([0], tf.string))
    assert {tensor.shape[0] for tensor in outputs.values()} == {0}


@pytest.mark.full
@pytest.mark.parametrize("name", OPTIONS)
def test_everything_has_the_batch_first(signatures, name):
    for signature in signatures(name).values():
        _, inputs = signature.structured_input_signature
        assert all(spec.shape == [None] for spec in inputs.values())
        for spec in signature.structured_outputs.values():
            assert isinstance(spec, tf.TensorSpec)
            assert spec.shape[0] is None


def test_xla_sees_few_shapes(tmp_path):
    layer = keras.layers.Layer()
    scale = layer.add_weight(shape=(), initializer=keras.initializers.Constant(3.0))

    def sizes(x):
        return tf.zeros_like(x[:, 0]) + scale * tf.cast(tf.size(x), tf.float32)

    compiled = buckets.compiled(sizes)
    inputs = [tf.TensorSpec([None, None], name="x")]
    endpoints = {"serving_jit": Endpoint(lambda x: {"y": compiled(x)}, inputs)}
    serve = tf.saved_model.load(str(write_version(tmp_path, [layer], endpoints))).signatures
    filled = {0: 1, 1: 1, 3: 8, 9: 32, 33: 64}
    for rows, of_bucket in filled.items():
        found = serve["serving_jit"](x=tf.ones([rows, 2]))["y"].numpy().tolist()
        assert found == [3.0 * 2 * of_bucket] * rows


def test_the_compiled_signature_can_be_left_out(model, monkeypatch):
    written = []
    monkeypatch.setattr("zoo.serving.write_version", lambda *arguments: written.extend(arguments))
    model("luong_nmt").export("nowhere", jit_compile=False)
    assert list(written[2]) == ["serving_default", "explain"]


# ---------------------------------------------------------------------------------------- warm-up


def requests_of(version):
    """Returns pairs of the name of a signature and its inputs."""
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    requests = []
    for record in tf.data.TFRecordDataset(str(version / WARMUP)).as_numpy_iterator():
        request = logs.PredictionLog.FromString(record).predict_log.request
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        assert request.model_spec.name == version.parent.name
        requests.append((request.model_spec.signature_name, inputs))
    return requests


@pytest.mark.full
def test_a_warm_up_request_for_each_signature_and_bucket(version, model):
    tokenizer = model("luong_nmt").tokenizer
    found = {}
    for name, inputs in requests_of(version("luong_nmt")):
        (length,) = set((tokenizer.tokenize(inputs["text"]).row_lengths() + 1).numpy())
        bucket = int(buckets.rounded_up(int(length), buckets.LENGTHS))
        found.setdefault(name, []).append((len(inputs["text"]), bucket))
    lengths = list(buckets.LENGTHS)
    one = [(1, length) for length in lengths]
    every = [(rows, length) for rows in buckets.ROWS for length in lengths]
    assert found == {"serving_default": one, "explain": one, "serving_jit": every}


@pytest.mark.parametrize(
    "name", ["transformer_lm", pytest.param("show_attend_tell", marks=pytest.mark.full)]
)
def test_a_warm_up_request_for_each_number_of_rows(model, name):
    found = {}
    for each, endpoint in model(name).endpoints().items():
        for example in endpoint.examples:
            assert len(example) == len(endpoint.inputs)
            (rows,) = {len(values) for values in example}
            found.setdefault(each, []).append(rows)
    assert found.pop("serving_jit") == list(buckets.ROWS)
    assert found.pop("serving_default") == [1]
    assert found in ({}, {"explain": [1]})


@pytest.mark.full
@pytest.mark.parametrize("name", ["luong_nmt", "show_attend_tell"])
def test_warm_up_requests_are_answered(version, signatures, name):
    for each, inputs in requests_of(version(name)):
        if each != "serving_jit":
            outputs = signatures(name)[each](**{key: tf.constant(x) for key, x in inputs.items()})
            assert outputs["text"].shape == [1]


def test_without_the_serving_api_the_export_tells_how_to_have_warm_up(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    with pytest.warns(UserWarning, match=r'pip install "keras-attention-zoo\[serve\]"'):
        path = write_version(tmp_path, [], DOUBLE)
    assert not (path / WARMUP).exists()
    loaded = tf.saved_model.load(str(path)).signatures["serving_default"]
    assert loaded(x=tf.constant([1.5]))["y"].numpy() == [3.0]


def test_warm_up_is_part_of_the_whole(tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_serving")

    def no_room(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(tf.io, "TFRecordWriter", no_room)
    with pytest.raises(OSError, match="disk full"):
        write_version(tmp_path, [], DOUBLE)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------- without Python


@pytest.fixture(scope="module")
def run_by_c(version):
    """Runs signatures in a process without Python packages; servers use `with_xla=False`."""
    folder = pathlib.Path(tf.__file__).parent
    libraries = [*folder.glob("libtensorflow_cc.so.2"), *folder.glob("libtensorflow_cc.2.dylib")]
    if not libraries:
        pytest.skip("TensorFlow comes without its C library here")

    def request(name, signature):
        content = (version(name) / "saved_model.pb").read_bytes()
        graph = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0]
        signature = graph.signature_def[signature]
        return {
            "folder": str(version(name)),
            "inputs": {key: tensor.name for key, tensor in signature.inputs.items()},
            "outputs": {key: tensor.name for key, tensor in signature.outputs.items()},
            "values": {key: in_base64(values) for key, values in REQUESTS[name].items()},
        }

    def run(*names, with_xla):
        requests = [request(*each) for each in names]
        arguments = {"library": str(libraries[0]), "with_xla": with_xla, "requests": requests}
        script = pathlib.Path(__file__).with_name("c_api.py")
        command = [sys.executable, "-I", "-S", script, json.dumps(arguments)]  # no site-packages
        result = subprocess.run(command, capture_output=True, check=False)
        assert result.returncode == 0, result.stderr.decode()
        return json.loads(result.stdout)

    return run


def in_base64(values):
    contents = [value.encode() if isinstance(value, str) else value for value in values]
    return [
        base64.b64encode(each).decode() if isinstance(each, bytes) else each for each in contents
    ]


def assert_equal(found, expected):
    assert found["text"] == in_base64(expected["text"].numpy())
    assert found["token_ids"] == expected["token_ids"].numpy().tolist()
    np.testing.assert_allclose(found["log_prob"], expected["log_prob"], rtol=1e-4, atol=1e-4)


@pytest.mark.full  # otherwise, one with XLA answers both
@pytest.mark.parametrize("names", [list(OPTIONS)])
def test_a_server_without_xla_answers_what_is_not_compiled(run_by_c, answers, names):
    plain = [(name, "serving_default") for name in names]
    *found, refused = run_by_c(*plain, ("luong_nmt", "serving_jit"), with_xla=False)
    for (name, signature), outputs in zip(plain, found, strict=True):
        assert_equal(outputs, answers(name, signature))
    assert "XLA compilation disabled" in refused["error"]


@pytest.mark.full  # the tests above call `serving_jit` in Python
def test_a_server_with_xla_answers_what_is_compiled(run_by_c, answers):
    asked = [(name, each) for name in BY_C for each in ("serving_default", "serving_jit")]
    for (name, _), outputs in zip(asked, run_by_c(*asked, with_xla=True), strict=True):
        assert_equal(outputs, answers(name, "serving_default"))
