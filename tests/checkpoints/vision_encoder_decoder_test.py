"""TrOCR, and ViT with GPT-2: the same numbers, tokens and texts as transformers."""

import json
from copy import deepcopy

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.checkpoints.loading import read_checkpoint
from zoo.decoding import BeamSampler
from zoo.readers.images import image_bytes
from zoo.readers.text.reading import read_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny, tiny_images  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402

SIZE, LENGTH = 16, 8
NO_REPEATS = {"no_repeat_ngram_size": 2}  # in the files
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
    "gpt2": {"kind": "GPT2", "ending": 2.2},  # the sizes of its encoder and its decoder differ
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Writes a checkpoint of a kind, and loads it here: the same one each time."""
    made = {}

    def make(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            theirs = tiny_images.save_vision_encoder_decoder(folder, **KINDS[kind])
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


@pytest.mark.few(1)
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


FULL = [("trocr", 1), ("small", 1), ("small", 3), ("gpt2", 1), ("gpt2", 3)]


@pytest.mark.parametrize(
    ("kind", "beams"),
    [("trocr", 3), *(pytest.param(*each, marks=pytest.mark.full) for each in FULL)],
)
@pytest.mark.usefixtures("eagerly")
def test_texts_are_those_of_transformers(checkpoints, photos, kind, beams):
    _, model, theirs, pieces, processor = checkpoints(kind)
    pixels, _ = seen(processor, photos)
    options = {} if beams == 1 else {"num_beams": beams, "early_stopping": "never"}
    written = theirs.generate(pixel_values=pixels, max_new_tokens=LENGTH, **options)
    options = {} if beams == 1 else {"sampler": "beam", "num_beams": beams, **NO_REPEATS}
    texts = model.caption(photos, max_length=LENGTH, **options)
    assert texts == pieces.batch_decode(written, skip_special_tokens=True)
    assert len(set(texts)) > 3
    end = theirs.generation_config.eos_token_id
    assert 0 < sum(end in row for row in written[:, 1:].tolist()) < 6


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_loss_is_that_of_transformers(checkpoints, photos, kind):
    _, model, theirs, _, processor = checkpoints(kind)
    model.compile("sgd")
    pixels, images = seen(processor, photos[:3])
    settings, tokens = theirs.generation_config, model.tokenizer.tokenize(LINES)
    ids, labels, weights = model.teach(tokens.to_tensor(model.tokenizer.pad_id))
    for row, line in enumerate(tokens.to_list()):  # without <s>, as TrOCR was trained
        length = len(line) + 1
        assert ids[row, :length].numpy().tolist() == [settings.decoder_start_token_id, *line]
        assert labels[row, :length].numpy().tolist() == [*line, settings.eos_token_id]
        assert weights[row].numpy().sum() == length
    predicted = model.core({"images": images, "target_ids": ids})
    loss = model.compute_loss(y=labels, y_pred=predicted, sample_weight=weights)
    told = torch.tensor(np.where(weights, labels, -100)).long()
    with torch.no_grad():
        expected = theirs(pixel_values=pixels, labels=told).loss.item()
    assert float(loss) == pytest.approx(expected, abs=1e-4)


@pytest.mark.full  # `captioner_reader_test` always asks for them
def test_maps_of_words(checkpoints, photos):
    _, model, *_ = checkpoints("gpt2")
    result = model.caption(photos, max_length=LENGTH, return_attention=True)
    for words, maps in zip(result.words, result.attention, strict=True):
        assert maps.shape == (len(words), 4, 4)
        np.testing.assert_allclose(maps.sum(axis=(1, 2)), 1.0, atol=1e-5)


def test_pieces_of_xlm_roberta_without_a_tokenizer_file(tmp_path):
    """As in the files of the small TrOCRs."""
    (tmp_path / "sentencepiece.bpe.model").write_bytes(tiny.sentence_pieces(tiny.TEXTS))
    named = {"tokenizer_class": "XLMRobertaTokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    pieces = transformers.XLMRobertaTokenizer.from_pretrained(tmp_path)
    found = read_tokenizer(tmp_path, size=len(pieces) + 5)
    texts = [*tiny.TEXTS, "ﬁve  Ｗide  letters </s> ", "", "the <mask> sat"]
    ids = [pieces(text, add_special_tokens=False)["input_ids"] for text in texts]
    assert found.tokenize(texts).to_list() == ids
    assert found.vocabulary_size == len(pieces) + 5
    assert [found.start_id, found.pad_id, found.end_id] == [0, 1, 2]
    whole = [pieces.cls_token_id, *ids[0], pieces.sep_token_id]
    for each in (ids[0], whole):
        text = found.detokenize([each]).numpy()[0].decode()
        assert text == pieces.decode(each, skip_special_tokens=True)


@pytest.mark.parametrize(
    "kind", ["gpt2", *(pytest.param(each, marks=pytest.mark.full) for each in ("trocr", "small"))]
)
def test_saved_and_back(checkpoints, tmp_path, kind):
    _, model, theirs, pieces, _ = checkpoints(kind)
    _, path = check_saved_and_back(model, theirs, tmp_path)
    assert transformers.AutoTokenizer.from_pretrained(path)(LINES) == pieces(LINES)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["small", "gpt2"])
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


def change(folder, copy, name, settings):
    """Copies a checkpoint, with other settings in one of its files."""
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    config = json.loads((copy / name).read_text())
    for key, value in settings.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    (copy / name).write_text(json.dumps(config))


def test_generation_settings_of_older_files(checkpoints, tmp_path):
    """They are in the config of the model or, where that has none, in that of the decoder."""
    words = {"num_beams": 4, "length_penalty": 2.0, "max_length": 20}
    settings = {"num_beams": 3, "early_stopping": True, "decoder_start_token_id": None}
    change(checkpoints("trocr")[0], tmp_path, "config.json", {**settings, "decoder": words})
    (tmp_path / "generation_config.json").unlink()
    plan, tokenizer = read_checkpoint(tmp_path)
    sampler = keras.saving.deserialize_keras_object(plan.options["sampler"])
    options = {"patience": 1.0, "only_best_end": True}
    assert sampler == BeamSampler(num_beams=3, length_penalty=2.0, **options)
    assert tokenizer.start_id == checkpoints("trocr")[1].tokenizer.start_id


@pytest.fixture(scope="module")
def again(checkpoints, tmp_path_factory):
    """A model that begins with `<s>`, and was fine-tuned on texts with `<s>` in front."""
    _, _, usual, pieces, processor = checkpoints("trocr")
    theirs, folder = deepcopy(usual), tmp_path_factory.mktemp("again")
    for config in (theirs.config, theirs.generation_config):
        config.decoder_start_token_id = pieces.bos_token_id
    with torch.no_grad():
        bias = theirs.decoder.model.decoder.layers[-1].final_layer_norm.bias
        bias += 2.5 * theirs.decoder.get_output_embeddings().weight[pieces.bos_token_id]
    for part in (theirs, pieces, processor):
        part.save_pretrained(folder)
    return zoo.load(str(folder)), theirs


@pytest.mark.parametrize("beams", [1, pytest.param(3, marks=pytest.mark.full)])
@pytest.mark.usefixtures("eagerly")
def test_a_start_token_that_comes_again(again, checkpoints, photos, beams):
    model, theirs = again
    *_, pieces, processor = checkpoints("trocr")
    pixels, _ = seen(processor, photos)
    options = {} if beams == 1 else {"num_beams": beams, "early_stopping": "never"}
    written = theirs.generate(pixel_values=pixels, max_new_tokens=LENGTH, **options)
    options = {} if beams == 1 else {"sampler": "beam", "num_beams": beams, **NO_REPEATS}
    result = model.caption(photos, max_length=LENGTH, return_attention=True, **options)
    assert result.texts == pieces.batch_decode(written, skip_special_tokens=True)
    assert any(pieces.bos_token_id in row for row in written[:, 1:].tolist())
    assert len(set(result.texts)) > 2
    assert not any("<s>" in words for words in result.words)
    assert model.twin().begin_id == pieces.bos_token_id


def test_texts_to_learn_begin_with_the_start_token_that_comes_again(again, checkpoints, photos):
    model, theirs = again
    *_, pieces, processor = checkpoints("trocr")
    pixels, _ = seen(processor, photos[:1])
    contents = tf.constant([image_bytes(photos[0])])
    tokens = model.tokenizer.tokenize(LINES[:1]).to_tensor()
    inputs, labels, weights = model._teach(contents, tokens)
    told = torch.tensor(pieces(LINES[:1])["input_ids"])
    assert labels.numpy().tolist() == told.tolist()
    model.compile("sgd")
    loss = model.compute_loss(y=labels, y_pred=model.core(inputs), sample_weight=weights)
    with torch.no_grad():
        expected = theirs(pixel_values=pixels, labels=told).loss.item()
    assert float(loss) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", ["trocr", "gpt2"])
def test_configs_of_older_files(checkpoints, tmp_path, kind):
    """They hold settings of every model, and the sizes of a base model may be missing."""
    usual = {"chunk_size_feed_forward": 0, "pruned_heads": {}, "num_beams": 1, "top_k": 50}
    usual |= {"do_sample": False, "prefix": None, "max_length": 20, "tie_encoder_decoder": False}
    eyes = {**usual, "model_type": "vit", "is_decoder": False, "add_cross_attention": False}
    words = {**usual, "is_decoder": True, "add_cross_attention": True, "bos_token_id": 2}
    if kind == "trocr":
        words |= {"model_type": "trocr", "classifier_dropout": 0.0, "use_cache": False}
        words |= {"vocab_size": 50265, "cross_attention_hidden_size": 768, "init_std": 0.02}
        theirs = transformers.TrOCRConfig()
    else:
        theirs = transformers.GPT2Config()
        words = {**theirs.to_dict(), **words, "n_ctx": 1024, "embd_pdrop": 0.1}
    path = checkpoints(kind)[0]
    for each in path.iterdir():
        (tmp_path / each.name).write_bytes(each.read_bytes())
    config = json.loads((path / "config.json").read_text())
    config |= {"num_beams": 1, "max_length": 20, "encoder": eyes, "decoder": words}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for name in ("generation_config.json", "preprocessor_config.json"):
        (tmp_path / name).unlink()
    plan, tokenizer = read_checkpoint(tmp_path)
    found, image = plan.options, transformers.ViTConfig()
    assert [found[name] for name in ("num_layers", "size", "num_heads")] == [
        theirs.num_hidden_layers,
        theirs.hidden_size,
        theirs.num_attention_heads,
    ]
    assert found["hidden"] == (4096 if kind == "trocr" else 3072)
    assert not found.get("projected")
    assert found["max_length"] == theirs.max_position_embeddings
    assert (found["tied"], found["epsilon"] if kind == "gpt2" else 1e-5) == (True, 1e-5)
    assert [found["image"][name] for name in ("num_layers", "size", "num_heads", "hidden")] == [
        image.num_hidden_layers,
        image.hidden_size,
        image.num_attention_heads,
        image.intermediate_size,
    ]
    assert found["image"]["epsilon"] == image.layer_norm_eps
    reader = found["reader"]["config"]
    assert (reader["size"], reader["mean"], reader["interpolation"]) == (224, 0.5, "bilinear")
    assert tokenizer.vocabulary_size == words["vocab_size"]


@pytest.mark.full
def test_older_files_hold_copies_of_tied_weights_and_buffers(checkpoints, tmp_path):
    from safetensors.numpy import load_file, save_file

    for kind, copy in (("trocr", "output_projection"), ("gpt2", "lm_head")):
        folder, model, theirs, _, _ = checkpoints(kind)
        path = tmp_path / kind
        path.mkdir()
        change(folder, path, "config.json", {})
        tensors = load_file(path / "model.safetensors")
        table = theirs.decoder.get_output_embeddings().weight.detach().numpy()
        tensors[f"decoder.{copy}.weight"] = table
        if kind == "gpt2":
            for part in ("attn", "crossattention"):
                tensors[f"decoder.transformer.h.1.{part}.bias"] = np.ones((1, 1, 4, 4), "uint8")
                tensors[f"decoder.transformer.h.1.{part}.masked_bias"] = np.array(-1e4, "float32")
        else:
            buffer = "decoder.model.decoder.embed_positions._float_tensor"
            tensors[buffer] = np.ones(1, "float32")
            tensors = {name: each for name, each in tensors.items() if ".pooler." not in name}
        save_file(tensors, path / "model.safetensors")
        again = zoo.load(str(path))
        for ours, others in zip(again.core.get_weights(), model.core.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, others)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("kind", "setting", "message"),
    [
        ("trocr", {"decoder": {"adapter": 1}}, "not implemented: adapter=1"),
        ("trocr", {"encoder": {"adapter": 1}}, "not implemented: adapter=1"),
        ("trocr", {"adapter": 1}, "not implemented: adapter=1"),
        ("trocr", {"decoder": {"activation_function": "mish"}}, "activation 'mish'"),
        ("trocr", {"decoder": {"tie_word_embeddings": False}}, "lacks .*output_projection.weight"),
        ("trocr", {"decoder": {"model_type": "bert"}}, "decoder of a 'bert', .* trocr, gpt2"),
        ("trocr", {"encoder": {"model_type": "swin"}}, "encoder of a 'swin', .* vit, deit"),
        ("trocr", {"encoder": {"image_size": [16, 20]}}, r"image_size=\[16, 20\], which is not"),
        ("trocr", {"architectures": ["TrOCRForCausalLM"]}, "of a TrOCRForCausalLM, which is not"),
        ("gpt2", {"decoder": {"add_cross_attention": False}}, "add_cross_attention=False"),
        ("gpt2", {"decoder": {"scale_attn_weights": False}}, "scale_attn_weights=False"),
        ("gpt2", {"decoder": {"cross_attention_hidden_size": 20}}, "has the shape"),
    ],
)
def test_settings_that_do_not_fit(checkpoints, tmp_path, kind, setting, message):
    change(checkpoints(kind)[0], tmp_path, "config.json", setting)
    with pytest.raises(ValueError, match=message):
        zoo.load(str(tmp_path))
