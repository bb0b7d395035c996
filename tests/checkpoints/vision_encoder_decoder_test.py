"""TrOCR, and ViT with GPT-2: the same numbers, tokens and texts as transformers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.decoding import BeamSampler, GreedySampler
from zoo.readers.images import image_bytes

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

SIZE, LENGTH = 16, 8
LINES = ["the cats sat on the mat", "trains and boats", "a trip to Paris"]
SMALL = {  # as in the small and the large models of TrOCR
    "pieces": "XLMRobertaTokenizer",
    "ending": 0.8,
    "activation_function": "relu",
    "scale_embedding": True,
    "layernorm_embedding": False,
    "tie_word_embeddings": False,
    "use_learned_position_embeddings": False,
}
KINDS = {
    "trocr": {},
    "small": {"encoder": "DeiT", **SMALL},
    "gpt2": {"kind": "GPT2"},  # the sizes of its encoder and its decoder differ
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Writes a checkpoint of a kind, and loads it here: the same one each time."""
    made = {}

    def make(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            theirs = tiny.save_vision_encoder_decoder(folder, **KINDS[kind])
            made[kind] = folder, zoo.load(str(folder)), *theirs
        return made[kind]

    return make


@pytest.fixture(scope="module")
def photos():
    """Of the size that the models read, so that nobody resizes them."""
    return list(np.random.default_rng(2).integers(0, 256, (6, SIZE, SIZE, 3), dtype="uint8"))


def seen(processor, photos):
    """Returns the pixels, for transformers and for the zoo."""
    pixels = np.stack(processor(photos)["pixel_values"])
    return torch.tensor(pixels), pixels.transpose(0, 2, 3, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_of_transformers(checkpoints, photos, kind):
    _, model, theirs, pieces, processor = checkpoints(kind)
    pixels, images = seen(processor, photos[:2])
    ids = np.random.default_rng(0).integers(5, len(pieces), (2, 6))
    ids[:, 0] = model.tokenizer.start_id
    with torch.no_grad():
        given = {"pixel_values": pixels, "decoder_input_ids": torch.tensor(ids)}
        expected = theirs(**given, output_attentions=True)
    inputs = {"images": images, "target_ids": ids}
    logits, weights = model.core(inputs, return_attention_scores=True)
    np.testing.assert_allclose(logits, expected.logits, atol=2e-5)
    others = {"decoder": expected.decoder_attentions, "cross": expected.cross_attentions}
    for name, of_blocks in {**others, "encoder": expected.encoder_attentions}.items():
        for ours, found in zip(weights[name], of_blocks, strict=True):
            np.testing.assert_allclose(ours, found, atol=1e-5)

    first = 2 if kind == "small" else 1  # tokens in front of the patches
    maps = torch.cat(expected.cross_attentions, dim=1).mean(1)[:, :, first:]
    maps = maps / maps.sum(-1, keepdim=True)
    context, state = model.core.start(images, ids.shape[1])
    for place in range(ids.shape[1]):
        logits, state, looks = model.core.step(ids[:, place], state, context)
        np.testing.assert_allclose(logits, expected.logits[:, place], atol=2e-5)
        np.testing.assert_allclose(looks, maps[:, place], atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "beams"),
    [
        ("trocr", 1),
        ("small", 1),
        ("gpt2", 1),
        *(pytest.param(kind, 3, marks=pytest.mark.full) for kind in KINDS),
    ],
)
def test_texts_are_those_of_transformers(checkpoints, photos, kind, beams):
    _, model, theirs, pieces, processor = checkpoints(kind)
    pixels, _ = seen(processor, photos)
    options = {} if beams == 1 else {"num_beams": beams, "early_stopping": "never"}
    written = theirs.generate(pixel_values=pixels, max_new_tokens=LENGTH, **options)
    sampler = None if beams == 1 else BeamSampler(num_beams=beams, no_repeat_ngram_size=2)
    texts = model.caption(photos, sampler, max_length=LENGTH)
    assert texts == pieces.batch_decode(written, skip_special_tokens=True)
    assert len(set(texts)) > 3
    end = theirs.generation_config.eos_token_id
    assert 0 < sum(end in row for row in written[:, 1:].tolist()) < 6


def test_the_generation_settings_are_those_of_the_files(checkpoints):
    for kind in KINDS:
        assert checkpoints(kind)[1].default_sampler == GreedySampler(no_repeat_ngram_size=2)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_to_learn_begin_and_end_as_those_that_are_written(checkpoints, kind):
    _, model, theirs, _, _ = checkpoints(kind)
    settings, tokens = theirs.generation_config, model.tokenizer.tokenize(LINES)
    inputs, labels, weights = model.teach(tokens.to_tensor(model.tokenizer.pad_id))
    for row, ids in enumerate(tokens.to_list()):
        length = len(ids) + 1
        assert inputs[row, :length].numpy().tolist() == [settings.decoder_start_token_id, *ids]
        assert labels[row, :length].numpy().tolist() == [*ids, settings.eos_token_id]
        assert weights[row].numpy().sum() == length


@pytest.mark.parametrize(
    "kind", ["gpt2", *(pytest.param(each, marks=pytest.mark.full) for each in ("trocr", "small"))]
)
def test_saved_and_back(checkpoints, tmp_path, kind):
    _, model, theirs, pieces, _ = checkpoints(kind)
    _, path = check_saved_and_back(model, theirs, tmp_path)
    assert transformers.AutoTokenizer.from_pretrained(path)(LINES) == pieces(LINES)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_trained_and_exported(checkpoints, photos, tmp_path, kind):
    tuned = zoo.load(str(checkpoints(kind)[0]))
    tuned.compile(keras.optimizers.Adam(0.01))
    history = tuned.fit(photos[:3], LINES, epochs=10, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    served = tf.saved_model.load(str(tuned.export(tmp_path / "model"))).signatures
    images = tf.constant([*map(image_bytes, photos), b"broken"])
    for name in ("serving_default", "serving_jit"):
        texts = served[name](image_bytes=images)["text"].numpy()
        assert [text.decode() for text in texts] == [*tuned.caption(photos), ""]
