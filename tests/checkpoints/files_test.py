"""Files of a checkpoint: other formats, and settings, tensors and tokenizers that do not fit."""

import io
import json

import keras
import numpy as np
import pytest

import zoo
from zoo.checkpoints.tensor_files import TensorFiles

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import safetensors.numpy  # noqa: E402
import safetensors.torch  # noqa: E402

from tests.checkpoints import tiny  # noqa: E402


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tiny.save(folder, "Bert", "ForSequenceClassification", num_hidden_layers=1)
    return folder


@pytest.fixture(scope="module")
def model(checkpoint):
    return zoo.load(str(checkpoint))


def changed(checkpoint, tmp_path, change_config=None, change_tensors=None):
    """Returns the path of a checkpoint with other settings or tensors."""
    for path in checkpoint.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((checkpoint / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **(change_config or {})}))
    tensors = safetensors.numpy.load_file(checkpoint / "model.safetensors")
    if change_tensors:
        change_tensors(tensors)
    safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
    return str(tmp_path)


def test_other_files(checkpoint, model, tmp_path):
    expected = model.core.get_weights()
    tensors = safetensors.torch.load_file(checkpoint / "model.safetensors")
    for path in checkpoint.iterdir():
        if path.name != "model.safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())

    def check(atol=0.0):
        for ours, theirs in zip(zoo.load(str(tmp_path)).core.get_weights(), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=atol)

    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, of_shard in shards.items():
        content = {name: tensors[name].bfloat16() for name in of_shard}
        safetensors.torch.save_file(content, tmp_path / shard)
    index = {"weight_map": {name: shard for shard in shards for name in shards[shard]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    check(atol=0.02)  # bfloat16 has 8 bits of precision
    (tmp_path / "a.safetensors").unlink()
    with pytest.raises(ValueError, match=r"files that are not there: a\.safetensors"):
        check()
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(ValueError, match="holds no weights"):
        check()
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): x for name, x in tensors.items()}
    torch.save(old, tmp_path / "pytorch_model.bin")
    check()


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_half_precision(checkpoint, model, dtype):
    half = zoo.load(str(checkpoint), dtype=dtype)
    for rounded, weight in zip(half.core.weights, model.core.weights, strict=True):
        expected = keras.ops.cast(weight.value, rounded.dtype)
        np.testing.assert_array_equal(rounded.numpy(), expected.numpy())
    assert dtype in {weight.dtype for weight in half.core.weights}


def test_settings_without_an_effect(checkpoint, model, tmp_path):
    """Versions 2 and 3 of transformers wrote all settings; only heads for masks tie weights."""
    old = {"pruned_heads": {}, "length_penalty": 1.0, "max_length": 20, "do_sample": False}
    old |= {"num_beams": 1, "repetition_penalty": 1.0, "tf_legacy_loss": False}
    path = changed(checkpoint, tmp_path, {**old, "tie_word_embeddings": False})
    assert zoo.load(path).core.config == model.core.config


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pruned_heads": {"0": [1]}}, "not implemented: pruned_heads="),
        ({"rotary_theta": 2}, "not implemented: rotary_theta=2"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        ({"hidden_act": "mish"}, "activation 'mish'"),
        (
            {"model_type": "roformer"},
            "'roformer', which is not implemented. Implemented: albert, audio-.*, bart, bert",
        ),
        ({"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice"),
        ({"problem_type": "ranking"}, "must be one of.*regression.*Received: 'ranking'"),
        ({"problem_type": "regression"}, "model with 2 outputs, which is not implemented"),
        ({"vocab_size": 3}, "size=3 is too small"),
        ({"hidden_size": "large"}, "cannot be loaded"),
        ({"id2label": 3}, "cannot be loaded"),
        ({"architectures": 3}, "cannot be loaded"),
        ({"num_hidden_layers": None}, "lacks 'num_hidden_layers'"),
        ({"intermediate_size": 32}, r"has the shape \(24, 16\) in the file"),
        ({"num_hidden_layers": 2}, r"lacks tensors.*encoder\.layer\.1"),
        ({"num_hidden_layers": 10**6}, "asks for 1000000 layers, and the files have"),
        ({"intermediate_size": 10**12}, "asks for a larger model than the files of weights"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        zoo.load(changed(checkpoint, tmp_path, change))


def test_tensors_that_do_not_fit(checkpoint, tmp_path):
    name = "bert.encoder.layer.0.output.dense.weight"

    def check(change, message):
        with pytest.raises(ValueError, match=message):
            zoo.load(changed(checkpoint, tmp_path, change_tensors=change))

    check(lambda tensors: tensors.pop(name), f"lacks tensors that the model needs: {name}")
    check(lambda tensors: tensors.update(extra=np.ones(3, "f")), "no place for: extra")
    check(lambda tensors: tensors[name].fill(np.nan), f"{name} holds numbers that are not finite")
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is damaged"):
        zoo.load(str(tmp_path))
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="is damaged"):
        zoo.load(str(tmp_path))
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n")
    with pytest.raises(ValueError, match="model.safetensors is damaged.*git lfs pull"):
        zoo.load(str(tmp_path))
    path.unlink()
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"index.json is damaged: KeyError\('weight_map'\)"):
        zoo.load(str(tmp_path))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"post_processor": None}, r"post_processor of the tokenizer.*the tokens \[\(\)\]"),
        ({"pad_token": "[SEP]"}, "no padding token of its own"),
    ],
)
def test_tokenizers_that_do_not_fit(checkpoint, tmp_path, part, message):
    changed(checkpoint, tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        path = tmp_path / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **part}))
    with pytest.raises(ValueError, match=message):
        zoo.load(str(tmp_path))


def test_pickled_files_that_are_not_read(tmp_path):
    tensors, pickled = {"weight": torch.zeros(300)}, io.BytesIO()
    torch.save(tensors, pickled)
    half = pickled.getvalue()[: len(pickled.getvalue()) // 2]
    path = tmp_path / "pytorch_model.bin"
    for content in (b"", b"version https://git-lfs.github.com/spec/v1", half):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="pytorch_model.bin is damaged, or holds something"):
            TensorFiles(tmp_path)
    for content in ([1], {"model": tensors}, torch.nn.Linear(2, 2)):
        torch.save(content, path)
        with pytest.raises(ValueError, match="other than a dictionary of tensors") as found:
            TensorFiles(tmp_path)
        assert "weights_only" not in str(found.value)  # no advice to run the code in it
