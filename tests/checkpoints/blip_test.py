"""BLIP checkpoints: the same numbers, tokens and captions as transformers."""

import json

import click.testing
import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.cli import main
from zoo.decoding import BeamSampler, GreedySampler, MinimumLength
from zoo.readers.images import image_bytes

safetensors = pytest.importorskip("safetensors.numpy")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny_images  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

SIZE, LENGTH = 16, 6
AS_THERE = {"exact": False, "only_best_end": True}  # beam search, as in transformers
CAPTIONS = ["the cats sat on the mat", "trains and boats", "a trip to paris or rome"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blip")
    return folder, *tiny_images.save_blip(folder)


@pytest.fixture(scope="module")
def model(checkpoint):
    return zoo.load(str(checkpoint[0]))


@pytest.fixture(scope="module")
def photos():
    """Of the size that the model reads, so that nobody resizes them."""
    return list(np.random.default_rng(2).integers(0, 256, (6, SIZE, SIZE, 3), dtype="uint8"))


@pytest.fixture(scope="module")
def pixels(checkpoint, photos):
    return torch.tensor(np.stack(checkpoint[3](photos)["pixel_values"]))


def taught(theirs, pieces, pixels):
    """Returns the tokens of captions, and what transformers computes of them and their images."""
    tokens = pieces(CAPTIONS, padding=True, return_tensors="pt")
    ids = tokens["input_ids"]
    ids[:, 0] = theirs.config.text_config.bos_token_id
    labels = torch.where(tokens["attention_mask"] > 0, ids, -100)
    images = {"pixel_values": pixels[: len(ids)]}
    found = theirs(**images, input_ids=ids, labels=labels)
    seen = {"encoder_hidden_states": found.image_embeds, "output_attentions": True}
    return ids, found, theirs.text_decoder(ids, **seen).cross_attentions


def channels_last(pixels):
    return pixels.numpy().transpose(0, 2, 3, 1)


def test_numbers_are_those_of_transformers(checkpoint, model, pixels):
    _, theirs, pieces, _ = checkpoint
    with torch.no_grad():
        ids, expected, crosses = taught(theirs, pieces, pixels)
        of_images = theirs.vision_model(pixels[:3], output_attentions=True).attentions
    images = channels_last(pixels[:3])
    encoded, _ = model.core.image_tower.encode(images)
    np.testing.assert_allclose(encoded, expected.image_embeds, atol=1e-4)
    inputs = {"images": images, "target_ids": ids.numpy()}
    logits, weights = model.core(inputs, return_attention_scores=True)
    np.testing.assert_allclose(logits, expected.logits, atol=1e-4)
    for kind, others in (("encoder", of_images), ("cross", crosses)):
        for ours, theirs in zip(weights[kind], others, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_steps_equal_the_whole_text(checkpoint, model, pixels):
    _, theirs, pieces, _ = checkpoint
    with torch.no_grad():
        ids, expected, crosses = taught(theirs, pieces, pixels)
    maps = torch.cat(crosses, dim=1).mean(1)[:, :, 1:]
    maps = maps / maps.sum(-1, keepdim=True)
    context, state = model.core.start(channels_last(pixels[:3]), ids.shape[1])
    for place in range(ids.shape[1]):
        logits, state, looks = model.core.step(ids[:, place].numpy(), state, context)
        np.testing.assert_allclose(logits, expected.logits[:, place], atol=1e-4)
        np.testing.assert_allclose(looks, maps[:, place], atol=1e-4)


@pytest.mark.parametrize(
    "beams",
    [1, pytest.param(4, marks=pytest.mark.full)],  # `marian_test` always searches
)
@pytest.mark.usefixtures("eagerly")
def test_captions_are_those_of_transformers(checkpoint, model, photos, pixels, beams):
    _, theirs, pieces, _ = checkpoint
    options = {} if beams == 1 else {"num_beams": beams, "early_stopping": "never"}
    written = theirs.generate(pixel_values=pixels, max_new_tokens=LENGTH, **options)
    sampler = model.default_sampler if beams == 1 else BeamSampler(num_beams=beams)
    rows = model._answers([*map(image_bytes, photos)], sampler, max_length=LENGTH)
    ends = pieces.sep_token_id, pieces.pad_token_id
    expected = [[token for token in row[1:].tolist() if token not in ends] for row in written]
    found = [row["token_ids"][0] for row in rows]
    assert [ids[ids != pieces.pad_token_id].tolist() for ids in found] == expected
    assert len({len(ids) for ids in expected}) > 2
    texts = pieces.batch_decode(written, skip_special_tokens=True)
    assert [row["text"][0].decode() for row in rows] == texts


def test_pictures_are_seen_as_the_processor_does(checkpoint, model):
    rng = np.random.default_rng(0)
    shapes = [(48, 36, 3), (20, 33, 3)]
    coarse = [keras.ops.image.resize(rng.uniform(0, 255, (4, 3, 3)), each[:2]) for each in shapes]
    photos = [np.array(each).clip(0, 255).astype("uint8") for each in coarse]
    found, _ = model.reader.read([image_bytes(each) for each in photos])
    expected = channels_last(torch.tensor(np.stack(checkpoint[3](photos)["pixel_values"])))
    np.testing.assert_allclose(found, expected, atol=0.02)  # a shade of 256 is 0.015


def test_loss_and_gradients_are_those_of_transformers(checkpoint, model, pixels):
    _, theirs, pieces, _ = checkpoint
    ids, expected, _ = taught(theirs, pieces, pixels)
    expected.loss.backward()
    core = model.core
    model.compile("sgd")
    inputs, labels, weights = model.teach(model.tokenizer.tokenize(CAPTIONS).to_tensor(0))
    width = ids.shape[1] - 1
    np.testing.assert_array_equal(inputs[:, :width], ids[:, :-1].where(ids[:, :-1] != 3, 0))
    inputs = {"images": channels_last(pixels[:3]), "target_ids": inputs}
    with tf.GradientTape() as tape:
        loss = model.compute_loss(y=labels, y_pred=core(inputs), sample_weight=weights)
    assert float(loss) == pytest.approx(expected.loss.item(), abs=1e-4)
    pairs = {
        "vision_model.embeddings.class_embedding": core.image_tower.class_token,
        "vision_model.embeddings.patch_embedding.bias": core.image_tower.patches.cut.bias,
        "text_decoder.bert.embeddings.word_embeddings.weight": core.embedding.table,
        "text_decoder.cls.predictions.bias": core.embedding.bias,
        "text_decoder.cls.predictions.transform.LayerNorm.weight": core.transform_norm.gamma,
    }
    found = tape.gradient(loss, [each.value for each in pairs.values()])
    for name, ours in zip(pairs, found, strict=True):
        others = theirs.get_parameter(name).grad.numpy()
        ours = np.reshape(tf.convert_to_tensor(ours), others.shape)
        np.testing.assert_allclose(ours, others, atol=1e-3, rtol=1e-3, err_msg=name)
    theirs.zero_grad()


@pytest.mark.full
def test_saved_and_back(checkpoint, model, pixels, tmp_path):
    _, theirs, pieces, _ = checkpoint
    _, path = check_saved_and_back(model, theirs, tmp_path)
    assert transformers.AutoTokenizer.from_pretrained(path)(CAPTIONS) == pieces(CAPTIONS)


@pytest.mark.full  # `captioner_reader_test` always trains and exports
def test_trained_and_exported(checkpoint, photos, tmp_path):
    tuned = zoo.load(str(checkpoint[0]))
    tuned.compile(keras.optimizers.Adam(0.01))
    history = tuned.fit(photos[:3], CAPTIONS, epochs=10, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    served = tf.saved_model.load(str(tuned.export(tmp_path / "model"))).signatures
    images = tf.constant([*map(image_bytes, photos), b"broken"])
    for name in ("serving_default", "serving_jit"):
        texts = served[name](image_bytes=images)["text"].numpy()
        assert [text.decode() for text in texts] == [*tuned.caption(photos), ""]


@pytest.mark.usefixtures("eagerly")
def test_caption_command(checkpoint, model, photos, monkeypatch, tmp_path):
    monkeypatch.setattr(zoo, "load", lambda name: model)
    (tmp_path / "photo.png").write_bytes(image_bytes(photos[0]))
    command = ["caption", str(checkpoint[0]), str(tmp_path / "photo.png"), "--max-length", "2"]
    result = click.testing.CliRunner().invoke(main, command)
    assert result.stdout == model.caption(photos[0], max_length=2) + "\n", result.output


def test_generation_settings_become_the_sampler(checkpoint, tmp_path):
    """From `generation_config.json` or, in older files, the config of the decoder."""

    def sampler():
        return keras.saving.deserialize_keras_object(
            read_checkpoint(tmp_path)[0].options["sampler"]
        )

    change(checkpoint[0], tmp_path, "generation_config.json", {"num_beams": 3, "min_length": 5})
    # The start token counts there.
    assert sampler() == BeamSampler(num_beams=3, processors=[MinimumLength(4)], **AS_THERE)
    (tmp_path / "generation_config.json").unlink()
    assert sampler() == GreedySampler()
    settings = {"text_config": {"num_beams": 2, "length_penalty": 0.5, "max_length": 20}}
    change(tmp_path, tmp_path, "config.json", settings)
    assert sampler() == BeamSampler(num_beams=2, length_penalty=0.5, **AS_THERE)


@pytest.mark.full
def test_older_files_hold_copies_of_tied_weights(checkpoint, model, tmp_path):
    change(checkpoint[0], tmp_path, "config.json", {})
    head, path = "text_decoder.cls.predictions", tmp_path / "model.safetensors"
    tensors = safetensors.load_file(path)
    words = tensors["text_decoder.bert.embeddings.word_embeddings.weight"]
    tensors |= {f"{head}.decoder.weight": words, f"{head}.decoder.bias": tensors[f"{head}.bias"]}
    tensors["text_decoder.bert.embeddings.position_ids"] = np.arange(40)[None]
    safetensors.save_file(tensors, path)
    for ours, others in zip(
        zoo.load(str(tmp_path)).core.get_weights(), model.core.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, others)
    tensors[f"{head}.decoder.weight"] = words + 1.0
    safetensors.save_file(tensors, path)
    with pytest.raises(ValueError, match="decoder.weight and .* differ in the file"):
        zoo.load(str(tmp_path))


def test_a_tokenizer_that_knows_the_start_token(checkpoint, model, tmp_path):
    folder, _, pieces, _ = checkpoint
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    more = transformers.AutoTokenizer.from_pretrained(folder)
    more.add_special_tokens({"bos_token": "[DEC]"})
    more.save_pretrained(tmp_path)
    _, found = read_checkpoint(tmp_path)
    assert found.pieces([[found.start_id, found.end_id]]) == [["[DEC]", "[SEP]"]]
    for each in (found, model.tokenizer):
        assert (each.start_id, each.end_id) == (len(pieces), pieces.sep_token_id)
        assert (each.pad_id, each.vocabulary_size) == (pieces.pad_token_id, len(pieces) + 2)
    name = model.tokenizer.pieces([[model.tokenizer.start_id]])[0][0]
    assert len(pieces) not in model.tokenizer.tokenize([name]).to_list()[0]  # it is no text


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"text_config": {"rotary": 1}}, "not implemented: rotary=1"),
        ({"text_config": {"is_decoder": False}}, "is_decoder=False"),
        ({"text_config": {"hidden_act": "mish"}}, "activation 'mish'"),
        ({"text_config": {"vocab_size": 60}}, "size=60 is too small"),
        ({"vision_config": {"num_channels": 1}}, "num_channels=1"),
        ({"vision_config": {"patch_size": 8}}, "has the shape"),
        ({"vision_config": {"image_size": [16, 20]}}, r"image_size=\[16, 20\], which is not impl"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ({"model_type": "blip-2"}, "of a 'blip-2', which is not implemented"),
        *(
            ({"architectures": [f"Blip{kind}"]}, f"of a Blip{kind}, which is not implemented")
            for kind in ("ForImageTextRetrieval", "ForQuestionAnswering", "Model")
        ),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, setting, message):
    change(checkpoint[0], tmp_path, "config.json", setting)
    with pytest.raises(ValueError, match=message):
        zoo.load(str(tmp_path))


def change(folder, copy, name, settings):
    """Copies a checkpoint, with other settings in one of its files."""
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    config = json.loads((copy / name).read_text())
    for key, value in settings.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    (copy / name).write_text(json.dumps(config))


def test_configs_without_sizes_are_of_the_base_model(checkpoint, tmp_path):
    """The older files hold settings of every model; other files leave out the defaults."""
    usual = {"add_cross_attention": False, "chunk_size_feed_forward": 0, "pruned_heads": {}}
    usual |= {"num_beams": 1, "do_sample": False, "top_k": 50, "prefix": None, "max_length": 20}
    eyes = {**usual, "model_type": "blip_vision_model", "dropout": 0.0, "num_channels": 3}
    words = {**usual, "model_type": "blip_text_model", "is_decoder": True, "sep_token_id": 3}
    for path in checkpoint[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"text_config": words, "vision_config": eyes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for name in ("generation_config.json", "preprocessor_config.json"):
        (tmp_path / name).unlink()
    plan, tokenizer = read_checkpoint(tmp_path)
    theirs, found = transformers.BlipConfig(), plan.options
    for ours, others in ((found, theirs.text_config), (found["image"], theirs.vision_config)):
        sizes = ("num_layers", "size", "num_heads", "hidden", "activation", "epsilon")
        assert [ours[name] for name in sizes] == [
            others.num_hidden_layers,
            others.hidden_size,
            others.num_attention_heads,
            others.intermediate_size,
            others.hidden_act,
            others.layer_norm_eps,
        ]
    assert (found["dropout"], found["attention_dropout"]) == (0.0, 0.0)
    assert (found["max_length"], found["patch_size"]) == (512, 16)
    assert (tokenizer.start_id, tokenizer.vocabulary_size) == (30522, 30524)
    reader = found["reader"]["config"]
    assert (reader["size"], reader["interpolation"]) == (384, "bicubic")
    np.testing.assert_allclose(reader["mean"], transformers.BlipImageProcessorPil().image_mean)
