"""LoRA and int8: fine-tuning few weights, and answers with small ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from keras_attention._keras import layers_in

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.checkpoints import tiny  # noqa: E402
from tests.conftest import without_graphs  # noqa: E402

LABELS = ["animal", "travel"]
TEXTS, TRUTH = [*tiny.TEXTS[:2], tiny.TEXTS[3]], ["animal", "travel", "travel"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tiny.save(folder, "Bert", "ForMaskedLM", num_hidden_layers=1)
    return folder


@pytest.fixture(scope="module")
def learned(request, folder):
    """Returns probabilities before and after LoRA, weights before training, and the model."""
    keras.utils.set_random_seed(1)
    model = zoo.load(str(folder), labels=LABELS)
    with without_graphs(request.config):
        found = [probabilities(model)]
        model.enable_lora(rank=3)
        found.append(probabilities(model))
    before = {weight.path: weight.numpy() for weight in model.core.weights}
    model.compile(optimizer=keras.optimizers.Adam(0.01), run_eagerly=True)
    model.fit(TEXTS, TRUTH, epochs=2, verbose=0)  # B starts at 0, and A learns through B
    return found, before, model


def probabilities(model):
    return model.classify(TEXTS, return_probabilities=True).probabilities


def test_it_begins_as_it_was(learned):
    (plain, with_lora), _, _ = learned
    np.testing.assert_array_equal(plain, with_lora)


def test_only_the_additions_and_the_head_learn(learned):
    _, before, model = learned
    trained = {
        each.path for each in model.core.weights if np.any(each.numpy() != before[each.path])
    }
    trainable = {each.path for each in model.core.trainable_weights}
    head = [*model.core.pooler.weights, *model.core.output_layer.weights]
    lora = {path for path in before if "lora_kernel" in path}
    assert len(lora) == 2 * 6  # A and B of six layers
    assert trainable == lora | {each.path for each in head}
    assert trained - {path for path in before if "seed" in path} == trainable


@pytest.mark.usefixtures("eagerly")
def test_answers_are_those_of_the_sums(learned, folder):
    *_, model = learned
    merged = zoo.load(str(folder), labels=LABELS)
    for to, of in zip(layers_in(merged.core), layers_in(model.core), strict=True):
        if isinstance(of, keras.layers.Dense):
            parts = {weight.name: weight.numpy().astype("float64") for weight in of.weights}
            addition = 0.0
            if "lora_kernel_a" in parts:
                addition = parts["lora_kernel_a"] @ parts["lora_kernel_b"]
                assert np.abs(addition).max() > 1e-3
            to.kernel.assign(parts["kernel"] + addition)
            to.bias.assign(parts["bias"])
    np.testing.assert_allclose(probabilities(merged), probabilities(model), atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_presets_hold_the_sums(learned, tmp_path):
    _, _, model = learned
    expected = probabilities(model)
    again = zoo.load(model.save_to_preset(tmp_path / "preset"))
    np.testing.assert_allclose(probabilities(again), expected, atol=1e-6)
    assert zoo.info(tmp_path / "preset").parameters == again.core.count_params()


@pytest.mark.usefixtures("eagerly")
def test_exports_hold_nothing_but_the_sums(learned, monkeypatch):
    *_, model = learned
    exported = {}

    def write_version(path, resources, endpoints):
        exported.update(core=resources[0], **endpoints)

    monkeypatch.setattr("zoo.serving.write_version", write_version)
    model.export("nowhere")
    assert not [each.path for each in exported["core"].weights if "lora" in each.path]
    found = exported["serving_default"].function(tf.constant(TEXTS))["probabilities"]
    np.testing.assert_allclose(found, probabilities(model), atol=1e-6)
    assert [each.path for each in model.core.weights if "lora" in each.path]


@pytest.mark.usefixtures("eagerly")
def test_updates_of_partly_quantized_models_are_exported_apart(folder, monkeypatch):
    monkeypatch.setattr("gc.collect", lambda: 0)  # Keras calls it for each kernel
    model, exported = zoo.load(str(folder), labels=LABELS), []
    model.core.blocks[0].feed_forward.inner.quantize("int8")
    model.enable_lora(2)
    monkeypatch.setattr("zoo.serving.write_version", lambda *arguments: exported.extend(arguments))
    model.export("nowhere")
    assert exported[1][0] is model.core


@pytest.mark.full
def test_exports_hold_the_sums(learned, tmp_path):
    _, _, model = learned
    expected = probabilities(model)
    served = tf.saved_model.load(str(model.export(tmp_path / "served")))
    answer = served.signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-6)


def test_a_checkpoint_holds_the_sums(tmp_path):
    tiny.save(tmp_path / "gpt2", "GPT2", "LMHeadModel", n_layer=1)
    model = zoo.load(str(tmp_path / "gpt2"))
    model.enable_lora(2)
    for weight in model.core.trainable_weights:
        weight.assign(0.1 * np.random.default_rng(0).normal(size=weight.shape))
    ids = np.array([[3, 5, 7]])
    expected = model.core(ids).numpy()
    again = zoo.load(zoo.save_checkpoint(model, tmp_path / "again"))
    np.testing.assert_allclose(again.core(ids), expected, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_a_compiled_model_must_be_compiled_again(folder):
    model = zoo.load(str(folder), labels=LABELS)
    model.compile(run_eagerly=True)
    model.enable_lora(2)
    with pytest.raises(ValueError, match=r"must call `compile\(\)` before"):
        model.fit(TEXTS, TRUTH)


def test_what_cannot_have_it(learned):
    with pytest.raises(ValueError, match="has LoRA already"):
        learned[-1].enable_lora(2)
    with pytest.raises(ValueError, match="`rank`"):
        learned[-1].enable_lora(0)
    with pytest.raises(ValueError, match="no Transformer blocks"):
        zoo.load("luong_nmt_multi30k_en_de", weights=None).enable_lora(2)


@pytest.mark.parametrize("mode", ["int8", "float8"])
def test_what_could_not_be_loaded_is_not_written(folder, tmp_path, monkeypatch, mode):
    monkeypatch.setattr("gc.collect", lambda: 0)  # Keras calls it for each kernel
    model = zoo.load(str(folder))
    model.core.blocks[0].feed_forward.inner.quantize(mode)
    with pytest.raises(ValueError, match="quantized"):
        model.save_to_preset(tmp_path / "preset")
    with pytest.raises(ValueError, match="quantized"):
        zoo.save_checkpoint(model, tmp_path / "checkpoint")
    with pytest.raises(ValueError, match="quantized"):
        model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match='quantized model. Export it before .*"tf_saved_model"'):
        model.export(tmp_path / "lite", format="litert")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_integers_lose_little(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("gc.collect", lambda: 0)  # Keras calls it for each kernel
    model = zoo.load(str(folder))
    text = "The cats sat on the [MASK]."
    before = model.fill_mask(text)
    layer, x = (
        model.core.blocks[0].feed_forward.inner,
        np.random.default_rng(0).normal(size=(5, 16)),
    )
    kernel, bias = layer.kernel.numpy(), layer.bias.numpy()
    model.quantize("int8")
    np.testing.assert_allclose(layer(x), rounded_product(x, kernel) + bias, atol=1e-5)
    after = model.fill_mask(text)
    assert after[0].probability != before[0].probability  # no longer what was compiled before
    assert after[0].probability == pytest.approx(before[0].probability, abs=0.01)
    model.save_weights(tmp_path / "quantized.weights.h5")  # the only file that can be loaded again
    again = zoo.load(str(folder))
    again.quantize("int8")
    again.load_weights(tmp_path / "quantized.weights.h5")
    assert again.fill_mask(text) == after


@pytest.mark.full  # run eagerly, XLA compiles each product of integers
def test_logits_of_integers_are_near(folder):
    model = zoo.load(str(folder))
    ids = np.arange(5, 29).reshape(2, 12)
    expected = model.core(ids).numpy()
    model.quantize("int8")
    found = model.core(ids).numpy()
    error = np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2))
    assert 1e-4 < error < 0.02


def rounded_product(x, kernel):
    """Multiplies matrices rounded to 8 bits, scaled by row of `x` and by column of `kernel`."""

    def rounded(array, axis):
        scale = 127 / np.abs(array).max(axis, keepdims=True)
        return np.round(array * scale), scale

    (x, of_rows), (kernel, of_columns) = rounded(x, -1), rounded(kernel, 0)
    return x @ kernel / (of_rows * of_columns)
