"""ONNX and LiteRT files of models of pictures: pixels and token ids in, the model's numbers out."""

import json

import click.testing
import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
import tokenizers

import zoo
from tests.zoo.pictures import CAPTIONS, IMAGES, MeanColors
from zoo.checkpoints.pictures import reader_of
from zoo.cli import main
from zoo.readers.images import image_bytes
from zoo.tasks.matching_graphs import library_of

TEXTS = ["The cats sat on the mat.", "  A   CAT's 2 hats\u2026 ", "", "the " * 40]
RANDOM = np.random.default_rng(0)


def graphs_of(folder, file_format):
    """Returns a function `(name of a graph, **inputs)` that runs a graph, row by row."""
    if file_format == "litert":
        lite = pytest.importorskip("ai_edge_litert.interpreter")
        lite = lite.Interpreter(str(folder / "model.tflite"))
        runners = {name: lite.get_signature_runner(name) for name in lite.get_signature_list()}
        return lambda name, **inputs: rows(runners[name], inputs)
    onnxruntime = pytest.importorskip("onnxruntime")

    def run(name, **inputs):
        session = onnxruntime.InferenceSession(folder / f"{name}.onnx")
        names = [each.name for each in session.get_outputs()]
        batch = dict(zip(names, session.run(None, inputs), strict=True))
        one = session.run(names, {name: value[:1] for name, value in inputs.items()})
        for name, value in zip(names, one, strict=True):
            np.testing.assert_allclose(value, batch[name][:1], atol=1e-5)
        return batch

    return run


def rows(runner, inputs):
    count = len(next(iter(inputs.values())))
    found = [
        runner(**{name: value[row : row + 1] for name, value in inputs.items()})
        for row in range(count)
    ]
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def encoded(library, texts, length):
    """Returns padded token ids and the attention mask of texts, by a `tokenizers` tokenizer."""
    ids = [each.ids for each in library.encode_batch(texts)]
    padded = [
        np.pad(np.array([row, [1] * len(row)]), [(0, 0), (0, length - len(row))]) for row in ids
    ]
    return dict(
        zip(("token_ids", "attention_mask"), np.stack(padded, 1).astype("int32"), strict=True)
    )


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------ classifiers


@pytest.mark.full  # `graphs_test` converts models of texts to both formats
@pytest.mark.parametrize("file_format", ["onnx", "litert"])
def test_a_classifier_by_the_command_line(tmp_path, file_format):
    pytest.importorskip("tf2onnx")
    folder, preset = tmp_path / "digits", tmp_path / "preset"
    zoo.load("vit_mnist", weights=None, num_layers=1).save_to_preset(preset)
    command = ["export", str(preset), str(folder), "--format", file_format]
    result = click.testing.CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert len(list(folder.iterdir())) == 3
    model = zoo.load(str(preset))
    digits = RANDOM.integers(0, 256, (3, 28, 28, 1), dtype="uint8")
    seen = read(folder, "preprocessor_config.json")
    assert seen["size"] == seen["crop_size"] == {"height": 28, "width": 28}
    pixels = digits * seen["rescale_factor"] - np.array(seen["image_mean"])
    pixels = (pixels / np.array(seen["image_std"])).astype("float32")
    logits = graphs_of(folder, file_format)("model", pixels=pixels)["logits"]
    np.testing.assert_allclose(logits, model.core(pixels), atol=1e-5)
    labels = read(folder, "labels.json")
    assert [labels[place] for place in logits.argmax(1)] == model.classify(list(digits))


def test_sounds_are_refused_with_what_can_be_exported(tmp_path):
    sounds = zoo.load("conformer_spoken_digit", weights=None, labels=["yes", "no"], size=8)
    with pytest.raises(ValueError, match="for models of texts or images.*SavedModel"):
        sounds.export(tmp_path / "graphs", format="onnx")
    with pytest.raises(ValueError, match="Unknown format 'onxx'. Did you mean 'onnx'"):
        sounds.export(tmp_path / "graphs", format="onxx")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------- matchers


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.checkpoints import tiny_images

    folder = tmp_path_factory.mktemp("clip")
    tiny_images.save_clip(folder, 24)
    return zoo.load(str(folder))


def check(matcher, folder, file_format, images, texts):
    """Compares vectors of exported graphs, made without the matcher's readers, with its own."""
    graph = graphs_of(folder, file_format)
    vectors = graph("image", pixels=images)["embedding"]
    seen = images if matcher.backbone is None else matcher.backbone(images)
    np.testing.assert_allclose(vectors, matcher.embed_annotations(seen), atol=1e-5)
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = encoded(library, texts, matcher.core.config.max_length)
    vectors = graph("text", **ids)["embedding"]
    np.testing.assert_allclose(vectors, matcher.embed(texts=texts), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    numbers = read(folder, "config.json")
    logits = numbers["logit_scale"] * np.eye(2, dtype="float32") + numbers.get("logit_bias", 0.0)
    np.testing.assert_allclose(logits, matcher.core.logits(np.eye(2, dtype="float32")), rtol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("file_format", ["litert", "onnx"])
def test_a_clip_of_others(clip, tmp_path, file_format):
    pytest.importorskip("tf2onnx")
    import transformers

    folder = clip.export(tmp_path / "clip", format=file_format)
    pixels = RANDOM.normal(size=(2, 16, 16, 3)).astype("float32")
    check(clip, folder, file_format, pixels, TEXTS)
    # The file tells other libraries how to read pictures.
    photo = PIL.Image.fromarray(RANDOM.integers(0, 256, (3, 4, 3), dtype="uint8"))
    photo = photo.resize((48, 36), PIL.Image.Resampling.BICUBIC)
    processor = transformers.CLIPImageProcessor.from_pretrained(folder)
    theirs = np.stack(processor(photo)["pixel_values"]).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(clip.reader.read([image_bytes(photo)])[0], theirs, atol=0.03)


@pytest.mark.full
@pytest.mark.parametrize("file_format", ["litert", "onnx"])
def test_a_siglip_of_others(tmp_path, file_format):
    """Its graph pads texts to the length that they have in training."""
    pytest.importorskip("tf2onnx")
    pytest.importorskip("transformers")
    from tests.checkpoints import tiny_images

    tiny_images.save_siglip(tmp_path, 24, name="GemmaTokenizer")
    siglip = zoo.load(str(tmp_path))
    folder = siglip.export(tmp_path / "siglip", format=file_format)
    pixels = RANDOM.normal(size=(2, 16, 16, 3)).astype("float32")
    check(siglip, folder, file_format, pixels, TEXTS)


@pytest.fixture(scope="module")
def toy():
    tower = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32}
    backbone = MeanColors()
    sizes = {"channels": backbone.channels, "positions": 4, "embedding_size": 16, "max_length": 20}
    tokenizer = zoo.ByteBPETokenizer.train(CAPTIONS, vocabulary_size=280)
    parts = {"tokenizer": tokenizer, "backbone": backbone, "text": tower, "image": tower}
    return zoo.load("clip", weights=None, **parts, **sizes)


def test_plain_texts_become_the_same_tokens(toy):
    texts = [
        *TEXTS,
        *CAPTIONS,
        "\u00c4rger, don't-know; \u00bd 3\u00b2 \u4f60\u597d!",
        "<start> a <end>",
        "?!",
        "A\0dog",
    ]
    length = toy.core.config.max_length
    found = encoded(library_of(toy), texts, length)
    ids = toy.read_texts(tf.constant(texts)).numpy()
    np.testing.assert_array_equal(found["token_ids"][:, : ids.shape[1]], ids)
    assert ids.shape[1] == length


@pytest.mark.full
@pytest.mark.parametrize("file_format", ["onnx", "litert"])
def test_a_backbone_is_part_of_the_graph(toy, tmp_path, file_format):
    pytest.importorskip("tf2onnx")
    folder = toy.export(tmp_path / "toy", format=file_format)
    pixels = np.stack([each[:8, :8] for each in IMAGES]).astype("float32")
    seen = read(folder, "preprocessor_config.json")
    assert seen["rescale_factor"] == pytest.approx(seen["image_std"][0])  # so, pixels from 0 to 255
    check(toy, folder, file_format, pixels, [*TEXTS, *CAPTIONS])


# --------------------------------------------------------------------------- how pictures are read


@pytest.mark.parametrize(
    "options",
    [
        {"size": 16},
        {"size": 16, "resized": 20, "interpolation": "bicubic"},
        {"size": 16, "resized": 20, "keeps_shape": True, "mean": [0.1, 0.2, 0.3]},
    ],
)
def test_what_is_said_of_a_reader_makes_it_again(tmp_path, options):
    reader = zoo.ImageReader(**options)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(reader.processor))
    again = zoo.ImageReader(**reader_of(None, tmp_path, 16, 3)["config"])
    assert again.processor == reader.processor
