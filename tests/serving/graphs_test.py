"""ONNX and LiteRT files compute what the model does, and clients can use them without the zoo."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.zoo.pictures import SIZE
from zoo.serving import graphs

STEPS = 4
TOKENS = np.array([[20, 30, 40, 50, 60, 2], [70, 80, 2, 0, 0, 0]], "int32")
PROMPTS = TOKENS[:, ::-1].copy()  # padded in front
IMAGES = np.random.default_rng(0).uniform(0, 255, (2, SIZE, SIZE, 3)).astype("float32")
INPUTS = {
    "luong_nmt": TOKENS,
    "transformer_nmt": TOKENS,
    "transformer_lm": PROMPTS,
    "show_attend_tell": IMAGES,
    "blip": IMAGES / 255.0,
}


def expected(model, inputs):
    """Yields the tokens before a step, and logits and attention after it, of greedy decoding."""
    context, state = model.serving_start().function(tf.constant(inputs))
    tokens = tf.fill([len(inputs)], 1)
    for _ in range(STEPS):
        logits, state, attention = model.core.step(tokens, state, context)
        yield tokens.numpy(), logits.numpy(), attention
        tokens = tf.argmax(logits, axis=-1, output_type=tf.int32)


def check(start, step, model, inputs):
    """Compares graphs, functions of named arrays, with the model."""
    memory = start(inputs)
    assert {np.shape(x)[:1] for x in memory.values()} <= {(), (len(inputs),)}  # no weights
    for tokens, logits, attention in expected(model, inputs):
        found = step({"tokens": tokens, **memory})
        np.testing.assert_allclose(found["logits"], logits, atol=1e-4, rtol=1e-4)
        if attention is not None:
            np.testing.assert_allclose(found["attention"], attention, atol=1e-5)
        memory |= {name.removeprefix("next_"): value for name, value in found.items()}
        memory = {name: memory[name] for name in memory if name.startswith(("context", "state"))}


# ------------------------------------------------------------------------------------------- ONNX


@pytest.fixture(scope="module")
def onnx_folder(model, tmp_path_factory):
    pytest.importorskip("tf2onnx")
    folders = {}

    def export(name):
        if name not in folders:
            path = tmp_path_factory.mktemp("onnx") / name
            folders[name] = model(name).export(path, format="onnx")
        return folders[name]

    return export


@pytest.mark.full  # the next test covers one
@pytest.mark.parametrize("name", list(INPUTS))
def test_onnx_equals_the_model(model, onnx_folder, name):
    onnxruntime = pytest.importorskip("onnxruntime")

    def graph(part):
        session = onnxruntime.InferenceSession(onnx_folder(name) / f"{part}.onnx")
        outputs = [each.name for each in session.get_outputs()]
        return session, lambda inputs: dict(zip(outputs, session.run(None, inputs), strict=True))

    session, start = graph("start")
    (reads,) = [each.name for each in session.get_inputs()]
    _, step = graph("step")
    each = [INPUTS[name][:rows] for rows in (2, 1)]
    each += [INPUTS[name][:, -1:]] if name == "transformer_lm" else []  # one token, for `step`
    for inputs in each:
        check(lambda inputs: start({reads: inputs}), step, model(name), inputs)


CLIENT = """
import json, sys
import numpy as np, onnxruntime, tokenizers
folder, text = sys.argv[1:]
tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
BEGIN, END = tokenizer.token_to_id("<start>"), tokenizer.token_to_id("<end>")
start, step = (onnxruntime.InferenceSession(f"{folder}/{name}.onnx") for name in ("start", "step"))

def run(graph, **inputs):
    outputs = graph.run(None, inputs)
    return {each.name: value for each, value in zip(graph.get_outputs(), outputs)}

source = np.array([tokenizer.encode(text).ids + [END]], "int32")
memory, tokens = run(start, source_ids=source), [BEGIN]
while tokens[-1] != END and len(tokens) < 2 * source.shape[1] + 11:
    found = run(step, tokens=np.array(tokens[-1:], "int32"), **memory)
    memory |= {name[5:]: value for name, value in found.items() if name.startswith("next_")}
    tokens.append(int(found["logits"][0, END:].argmax()) + END)  # neither padding nor BEGIN
tokens = [token for token in tokens[1:] if token != END]
print(json.dumps(tokenizer.decode(tokens).removeprefix(" ")))
assert not {"tensorflow", "keras", "zoo"} & set(sys.modules)
"""


def test_a_client_translates_with_onnx_runtime_and_tokenizers_alone(model, onnx_folder):
    pytest.importorskip("onnxruntime")
    command = [sys.executable, "-I", "-c", CLIENT, str(onnx_folder("luong_nmt")), "a man sleeps"]
    result = subprocess.run(command, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    translated = model("luong_nmt").translate("a man sleeps", sampler="greedy")
    assert translated
    assert json.loads(result.stdout) == translated


# ----------------------------------------------------------------------------------------- LiteRT


@pytest.mark.few(1)
@pytest.mark.parametrize("name", list(INPUTS))
def test_litert_equals_the_model(model, tmp_path, name):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    path = model(name).export(tmp_path / name, format="litert") / "model.tflite"
    interpreter = interpreter.Interpreter(str(path))
    start, step = (interpreter.get_signature_runner(part) for part in ("start", "step"))
    ((reads, described),) = start.get_input_details().items()
    shape = described["shape"]
    assert shape[0] == 1
    inputs = INPUTS[name][1:]
    if inputs.ndim == 2:  # a fixed length: padding changes nothing
        missing = shape[1] - inputs.shape[1]
        inputs = np.pad(inputs, [(0, 0), (missing, 0) if "prompt" in reads else (0, missing)])
    check(
        lambda values: start(**{reads: values}), lambda values: step(**values), model(name), inputs
    )


# ----------------------------------------------------------------------------------------- errors


def test_what_is_there_is_not_written_over(model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="`path` must be a new folder.*exists already"):
        model("luong_nmt").export(tmp_path, format="litert")


def test_a_conversion_that_fails_leaves_nothing(model, tmp_path, monkeypatch):
    def fail(folder, core, start):
        (folder / "start.onnx").touch()
        raise OSError("disk full")

    monkeypatch.setitem(graphs.GRAPH_FORMATS, "onnx", fail)
    with pytest.raises(OSError, match="disk full"):
        model("luong_nmt").export(tmp_path / "model", format="onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "onxx"}, "Unknown format 'onxx'. Did you mean 'onnx'"),
        ({"format": "onnx", "sampler": "greedy"}, "the caller of the graphs picks the tokens"),
        ({"format": "onnx", "num_beams": 2}, "the caller of the graphs picks the tokens"),
    ],
)
def test_wrong_arguments_are_named(model, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        model("luong_nmt").export(tmp_path / "model", **arguments)


def test_half_precision_is_named_with_the_way_out(model, tmp_path):
    half = model("luong_nmt", dtype="mixed_bfloat16")
    with pytest.raises(ValueError, match='computes in bfloat16: load it with dtype="float32"'):
        half.export(tmp_path / "model", format="onnx")


@pytest.mark.parametrize("file_format", ["onnx", pytest.param("litert", marks=pytest.mark.full)])
def test_operations_that_a_format_lacks_are_named(model, tmp_path, monkeypatch, file_format):
    pytest.importorskip("tf2onnx")
    captioner = model("show_attend_tell")
    step = captioner.core.step

    def odd_step(tokens, state, context):
        logits, state, attention = step(tokens, state, context)
        return tf.math.bessel_i1(logits), state, attention

    monkeypatch.setattr(captioner.core, "step", odd_step)
    with pytest.raises(ValueError, match="lacks operations of this model: .*BesselI1.*SavedModel"):
        captioner.export(tmp_path / "model", format=file_format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "install"),
    [("tf2onnx", r'"keras-attention-zoo\[onnx\]"'), ("tokenizers", "tokenizers")],
)
def test_a_missing_library_is_named(model, tmp_path, monkeypatch, module, install):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"pip install {install}"):
        model("luong_nmt").export(tmp_path / "model", format="onnx")
    assert keras.backend.backend() == "tensorflow"
