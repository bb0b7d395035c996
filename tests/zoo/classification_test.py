"""Classifying pictures: training on raw pictures, presets, the exported model, mistakes."""

import json
import random

import click.testing
import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.commands import run
from zoo.cli import main
from zoo.readers.images import image_bytes

LABELS = ["dark", "light"]
OPTIONS = {"patch_size": 4, "num_layers": 2, "size": 8, "num_heads": 2, "hidden": 16}


def pictures(count):
    """Returns pictures, half of them light, and their labels."""
    generator = np.random.default_rng(1)
    levels = np.tile([60, 190], count // 2)[:, None, None, None]
    noise = generator.integers(-40, 40, (count, 8, 8, 3))
    return (levels + noise).astype("uint8"), LABELS * (count // 2)


@pytest.fixture(scope="module")
def model():
    random.seed(1)
    reader = zoo.ImageReader(size=8)
    model = zoo.load("vit", weights=None, reader=reader, labels=LABELS, dtype="float32", **OPTIONS)
    model.compile(keras.optimizers.Adam(0.01))
    images, labels = pictures(256)
    model.fit(list(images), labels, batch_size=16, verbose=0)
    return model


def test_learns_from_lists(model):
    images, labels = pictures(8)
    assert model.classify(images) == labels
    assert model.classify(images[1]) == "light"
    assert model.evaluate(images, labels, return_dict=True, verbose=0)["accuracy"] == 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["pixels", "encoded"])
def test_data_sets_are_as_lists(model, kind):
    images, labels = pictures(8)
    raw = images if kind == "pixels" else [image_bytes(each) for each in images]
    dataset = tf.data.Dataset.from_tensor_slices((raw, [LABELS.index(each) for each in labels]))
    (found, numbers, weights), *_ = model.batches(dataset, batch_size=8)
    (expected, *_), *_ = model.batches(list(images), labels, batch_size=8)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert numbers.numpy().tolist() == [0, 1] * 4
    assert weights.numpy().tolist() == [1.0] * 8


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options", [{"resized": 6, "keeps_shape": True, "interpolation": "bicubic"}, {"channels": 1}]
)
def test_pixels_of_a_data_set_are_read_as_pictures(options):
    reader = zoo.ImageReader(size=4, **options)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 12, 20, 3)).astype("uint8")
    expected, _ = reader.read([image_bytes(pixels[0])])
    ((found, _),) = reader.batched(tf.data.Dataset.from_tensor_slices((pixels, [0])), 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_pixels_of_a_data_set_are_not_scaled_yet():
    pixels = np.random.default_rng(0).uniform(size=(3, 4, 4, 3)).astype("float32")
    reader = zoo.ImageReader(size=4)

    def read(pixels, batch_size=3):
        examples = tf.data.Dataset.from_tensor_slices((pixels, [0, 0, 0]))
        return list(reader.batched(examples, batch_size))

    for scaled in (pixels, 2.0 * pixels - 1.0):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"0 to 255.*\[(0.9|1)"):
            read(scaled)
    dark = np.concatenate([0.0 * pixels[:1], pixels[1:]])
    assert len(read(dark)) == 1
    assert len(read(pixels, batch_size=1)) == 3
    assert len(read(255.0 * pixels)) == 1


def test_probabilities_are_those_of_the_core(model):
    images, labels = pictures(4)
    result = model.classify(images, return_probabilities=True)
    scaled = (images.astype("float32") / 255.0 - 0.5) / 0.5
    logits = model.core(scaled).numpy().astype("float64")
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = exponentials / exponentials.sum(axis=1, keepdims=True)
    assert result.labels == labels
    assert result.probabilities.dtype == np.float32
    np.testing.assert_allclose(result.probabilities, expected, atol=1e-5)


def test_attention_is_told_and_drawn(model):
    images, _ = pictures(2)
    result = model.classify(images, return_attention=True)
    assert result.attention.shape == (2, 2, 2)
    assert result.heads.shape == (2, 2, 2, 2, 2)
    np.testing.assert_allclose(result.attention.sum(axis=(1, 2)), 1.0, atol=1e-5)
    assert len(result.plot(1).axes) == 2
    assert [each.get_title() for each in result.plot(0, layer=-1).axes] == ["", "head 0", "head 1"]
    with pytest.raises(ValueError, match="a layer from 0 to 1"):
        result.plot(0, layer=2)


def test_preset_and_file_compute_the_same(model, tmp_path):
    model.save_to_preset(tmp_path / "toy")
    model.save(tmp_path / "toy.keras")
    assert not (tmp_path / "toy" / "tokenizer.json").exists()
    loaded = zoo.load(tmp_path / "toy"), keras.models.load_model(tmp_path / "toy.keras")
    for again in loaded:  # one in an archive classifies, see below
        assert again.labels == LABELS
        assert again.core.config == model.core.config
        assert again.reader.get_config() == model.reader.get_config()
        for found, weight in zip(again.core.get_weights(), model.core.get_weights(), strict=True):
            np.testing.assert_array_equal(found, weight)


def test_the_exported_model_takes_files(model, tmp_path):
    images, _ = pictures(2)
    encoded = [image_bytes(each) for each in images]
    signatures = tf.saved_model.load(str(model.export(tmp_path / "toy"))).signatures
    served = signatures["serving_default"](image_bytes=tf.constant([*encoded, b"none"]))
    result = model.classify(images, return_attention=True)
    assert served["label"].numpy().tolist() == [b"dark", b"light", b""]
    np.testing.assert_allclose(served["probabilities"][:2], result.probabilities, atol=1e-6)
    assert served["probabilities"][2].numpy().tolist() == [0.0, 0.0]
    explained = signatures["explain"](image_bytes=tf.constant(encoded))
    np.testing.assert_allclose(explained["attention"], result.attention, atol=1e-6)


def test_the_command_line_names_labels(model, tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: model)
    for name, image in zip(("a.png", "b.png"), pictures(2)[0], strict=True):
        (tmp_path / name).write_bytes(image_bytes(image))
    paths = [str(tmp_path / each) for each in ("a.png", "b.png")]
    result = click.testing.CliRunner().invoke(main, ["classify", "toy", *paths])
    assert result.exit_code == 0, result.output
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [label for label, _ in lines] == LABELS
    assert all(0.5 <= float(share) <= 1.0 for _, share in lines)
    piped = click.testing.CliRunner().invoke(main, ["classify", "toy"], input="\n".join(paths))
    assert piped.stdout == result.stdout
    piped = click.testing.CliRunner().invoke(main, ["classify", "toy"], input=paths[0] + "\n\n")
    assert piped.exit_code == 1  # for the empty line
    assert piped.stdout == result.stdout.splitlines()[0] + "\n\n"
    assert "There is no image ''" in piped.stderr
    files = ["--input", str(tmp_path), "--output", str(tmp_path / "answers.jsonl")]
    result = click.testing.CliRunner().invoke(main, ["classify", "toy", *files])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    expected = model.classify(paths, return_probabilities=True).probabilities.max(axis=1)
    assert [row["probability"] for row in rows] == pytest.approx(expected.tolist(), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([np.zeros((8, 8, 3), "uint8")], LABELS), "a label for each input"),
        (([np.zeros((8, 8, 3), "uint8")], ["grey"]), "one of .*'dark', 'light'.*'grey'"),
        (([np.zeros((8, 8, 3), "uint8")], [2]), "one of .*Received: 2 at position 0"),
        (({"image": ["a.png"]}, ["dark"]), "An image must be .* of type dict"),
        ((tf.data.Dataset.range(3),), r"Dataset of \(input, label\)"),
    ],
)
def test_wrong_examples_are_named(model, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*arguments, verbose=0)


def test_a_broken_picture_in_a_data_set_is_told(model):
    dataset = tf.data.Dataset.from_tensor_slices(([b"none"], [0]))
    message = r"cannot be decoded: leave them out.*tf\.io\.read_file"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        model.evaluate(dataset, verbose=0)


def test_pixels_of_a_data_set_are_finite():
    reader = zoo.ImageReader(size=4)
    dataset = tf.data.Dataset.from_tensor_slices((np.full((1, 5, 5, 3), np.nan), [0]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="numbers that are not finite"):
        list(reader.batched(dataset, 1))


def test_labels_are_as_many_as_logits(model):
    with pytest.raises(ValueError, match=r"one for each logit of the model \(2\)"):
        zoo.Classifier(model.core, reader=model.reader, labels=["one"])
    with pytest.raises(ValueError, match="either tokenizer=.* or reader="):
        zoo.Classifier(model.core, labels=LABELS)


@pytest.mark.usefixtures("eagerly")
def test_a_shipped_classifier_is_measured_by_the_command(monkeypatch):
    pixels = np.zeros((4, 28, 28, 1), "uint8")
    pixels[:, 4:24, 13:15] = 255  # all of them show a 1
    images = tf.data.Dataset.from_tensor_slices((pixels, [1, 1, 1, 0]))
    monkeypatch.setattr("zoo.training.digits.DigitsRecipe.load", lambda *_: images)
    result = run("evaluate", "vit_mnist")
    assert result.exit_code == 0, result.output
    assert "75.0  accuracy, %" in result.output
    assert (
        "does not generate: it does not take num_beams"
        in run("evaluate", "vit_mnist", "--num-beams", 3).output
    )


def test_commands_refuse_what_a_classifier_has_not(model, tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "load", lambda name: model)
    asked = ["export", "toy", tmp_path / "exported"]
    assert "its export does not take --jit" in run(*asked, "--no-jit").output
    assert "its own labels" in run("classify", "toy", "a.png", "--label", "1").output
    files = ["--input", tmp_path, "--output", tmp_path / "out"]
    asked = run("classify", "toy", *files, "--show-attention", tmp_path / "a.png")
    assert "not for --input" in asked.output


@pytest.mark.usefixtures("eagerly")
def test_a_preset_without_a_tokenizer_goes_into_an_archive(model, tmp_path):
    name = model.save_to_preset(tmp_path / "digits.zip")
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype="uint8")
    found = zoo.load(name).classify(noise, return_probabilities=True).probabilities
    expected = model.classify(noise, return_probabilities=True).probabilities
    np.testing.assert_allclose(found, expected, rtol=2e-6)


@pytest.mark.parametrize(
    ("argument", "instead"),
    [
        ({"validation_split": 0.5}, r"validation_data=\(x\[n:\], y\[n:\]\)"),
    ],
)
def test_what_keras_takes_with_arrays_has_another_way(model, argument, instead):
    (name,) = argument
    message = f"`{name}` is supported for arrays only.*{instead}.*Received: {name}="
    with pytest.raises(ValueError, match=message):
        model.fit(*pictures(4), **argument)


def test_labels_have_weights_in_the_loss_alone(model):
    images, labels = pictures(4)
    labels = [*labels[:2], "light", "light"]  # the third is dark: a mistake of the model
    light = model.evaluate(images[1:], labels[1:], return_dict=True, verbose=0)
    for weight, class_weight in ((2.0, {"dark": 0.0, "light": 2.0}), (1.0, {0: 0})):
        weighed = model.batches(images, labels, class_weight=class_weight)
        found = model.evaluate(weighed, return_dict=True, verbose=0)
        assert found["loss"] == pytest.approx(weight * 3 / 4 * light["loss"])
        assert found["accuracy"] == 0.75


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"drak": 2.0}, "one of .*Received: 'drak'"),
        ({2: 2.0}, "one of .*Received: 2"),
        ({"dark": -1.0}, "at least 0. Received: 'dark': -1.0"),
        ({"dark": float("nan")}, "finite"),
        ([1.0, 2.0], "must be a dictionary"),
        (np.ones(2), "must be a dictionary"),
        ({"light": 2.0, 1: 3.0}, "two for 'light': as 'light' and as 1"),
    ],
)
def test_weights_of_labels_are_checked(model, class_weight, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*pictures(4), class_weight=class_weight)


def test_inputs_have_weights_in_the_loss_alone(model):
    images, labels = pictures(4)
    labels = [*labels[:2], "light", "light"]  # the third is dark: a mistake of the model
    weights = [0.0, 1.0, 3.0, 0.5]
    found = model.evaluate(images, labels, sample_weight=weights, return_dict=True, verbose=0)
    rows = model.classify(images, return_probabilities=True).probabilities.astype("float64")
    losses = [-np.log(row[model.labels.index(y)]) for row, y in zip(rows, labels, strict=True)]
    assert found["loss"] == pytest.approx(np.mean(np.multiply(losses, weights)), rel=1e-4)
    assert found["accuracy"] == 0.75
    one_by_one = {"sample_weight": weights, "batch_size": 1}
    again = model.evaluate(images, labels, return_dict=True, verbose=0, **one_by_one)
    assert again["loss"] == pytest.approx(found["loss"], rel=1e-5)
    rate, model.optimizer.learning_rate = float(model.optimizer.learning_rate), 0.0
    validation_data = images, labels, weights
    history = model.fit(images, labels, validation_data=validation_data, verbose=0).history
    model.optimizer.learning_rate = rate
    assert history["val_loss"] == pytest.approx([found["loss"]], rel=1e-5)
    assert history["loss"] != pytest.approx([found["loss"]], rel=1e-2)
    both = model.batches(
        images, labels, class_weight={"light": 2.0}, sample_weight=weights, shuffle=True
    )
    ((_, numbers, found),) = both
    expected = [(0, 0.0), (1, 2.0), (1, 6.0), (1, 1.0)]
    numbers = numbers.numpy().tolist()
    assert sorted(zip(numbers, found.numpy().tolist(), strict=True)) == sorted(expected)


@pytest.mark.parametrize(
    "weights", [[1.0] * 3, [[1.0]] * 4, [1.0, -1.0, 1.0, 1.0], [np.nan] * 4, ["a"] * 4, 2.0]
)
def test_weights_of_inputs_are_checked(model, weights):
    with pytest.raises(ValueError, match="`sample_weight` must be 4 finite numbers"):
        model.fit(*pictures(4), sample_weight=weights)
    with pytest.raises(ValueError, match="`sample_weight` must be 4 finite numbers"):
        model.fit(*pictures(4), validation_data=(*pictures(4), weights))


def test_weights_of_inputs_are_for_lists(model):
    examples = tf.data.Dataset.from_tensor_slices((np.zeros((2, 8, 8, 3), "uint8"), [0, 1]))
    with pytest.raises(ValueError, match="`sample_weight` is for lists. In a data set"):
        model.batches(examples, sample_weight=[1.0, 2.0])


def test_weights_of_labels_come_too_late_for_batches(model):
    with pytest.raises(
        ValueError, match="`class_weight` cannot be applied to finished batches.*to `batches`"
    ):
        model.fit(model.batches(*pictures(4)), class_weight={0: 2.0})
    with pytest.raises(ValueError, match="`sample_weight` cannot be applied to finished batches"):
        model.evaluate(model.batches(*pictures(4)), sample_weight=[1.0] * 4)


def test_inputs_with_several_labels_have_no_weights_of_labels(model):
    settings = {**model.settings, "problem_type": "multi_label_classification"}
    several = type(model)(model.core, **settings)
    with pytest.raises(ValueError, match="multi-label problem.*Received: class_weight={0: 2.0}"):
        several.batches(*pictures(4), class_weight={0: 2.0})


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        "bce",
        keras.losses.sparse_categorical_crossentropy,
        ["CategoricalCrossentropy"],
        "BinaryCrossentropy",
        keras.losses.SparseCategoricalCrossentropy(),
    ],
)
def test_a_loss_of_probabilities_is_refused(model, loss):
    with pytest.raises(ValueError, match=r"logits.*from_logits=True.*Received: loss="):
        model.twin().compile(loss=loss)
    model.twin().compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def test_strings_of_pandas_are_raw_inputs(model):
    class Series:
        dtype, shape = object(), (1,)  # TensorFlow does not know the type

    with pytest.raises(ValueError, match="takes batches of numbers here. .* call `classify`"):
        model.predict(Series())


def test_lists_of_pictures_are_raw_inputs(model):
    images, _ = pictures(2)
    for predict in (model, model.predict):
        with pytest.raises(ValueError, match=r"Received: shape \(.*, uint8. .* call `classify`"):
            predict(list(images))


def test_examples_of_a_data_set_may_have_weights(model):
    examples = tf.data.Dataset.from_tensor_slices((*pictures(4), np.arange(4)))
    losses = []
    for data in ((examples,), pictures(4)):
        options = {} if len(data) == 1 else {"sample_weight": range(4)}
        losses.append(model.evaluate(*data, return_dict=True, verbose=0, **options)["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for weight in (-1.0, np.nan):
        examples = tf.data.Dataset.from_tensor_slices((*pictures(4), [weight] * 4))
        with pytest.raises(tf.errors.InvalidArgumentError, match="A weight of a data set must be"):
            list(model.batches(examples))


def test_an_epoch_that_runs_out_of_batches_is_told(model):
    images, labels = pictures(4)
    examples = tf.data.Dataset.from_tensor_slices((images, labels)).filter(lambda *_: True)
    with pytest.warns(UserWarning, match=r"ran out of data.*`\.repeat\(\)`"):
        model.fit(examples, steps_per_epoch=1, epochs=2, verbose=0)


@pytest.mark.parametrize("batch_size", [0, 1.5, "8"])
def test_batch_size_must_be_a_positive_integer(model, batch_size):
    images, labels = pictures(4)
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=f"batch_size.*integer.*batch_size={batch_size!r}"):
            method(images, labels, batch_size=batch_size)
    with pytest.raises(ValueError, match=f"batch_size.*integer.*batch_size={batch_size!r}"):
        model.classify(images, batch_size=batch_size)


def test_a_size_asked_for_is_that_of_the_reader(model, tmp_path):
    options = {"labels": LABELS, **OPTIONS, "image_size": 16}
    with pytest.raises(ValueError, match=r"Pass reader=zoo\.ImageReader\(size=16\)\."):
        zoo.load("vit", weights=None, **options)
    with pytest.raises(ValueError, match=r"size of its reader, 8\. Received: image_size=16.*=16\)"):
        zoo.load("vit", weights=None, reader=model.reader, **options)
    larger = zoo.load("vit", weights=None, reader=zoo.ImageReader(size=16), **options)
    larger.save_weights(tmp_path / "larger.weights.h5")
    path = tmp_path / "larger.weights.h5"  # whose positions are interpolated
    smaller = zoo.load("vit", weights=path, reader=model.reader, **options)
    assert smaller.classify(pictures(2)[0])
