"""Matching pictures and texts: what the towers compute, what users ask, presets, export."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import zoo
from tests.zoo.pictures import CAPTIONS, CHANNELS, IMAGES, MeanColors
from zoo.cli import main
from zoo.metrics import ContrastiveLoss, SigmoidLoss, retrieval_scores
from zoo.models.clip import Clip, ClipConfig
from zoo.readers.images import image_bytes
from zoo.tasks.match_results import Matches
from zoo.training.evaluation import evaluate_matcher, matcher_quality

TOWER = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "dropout": 0.0}
TINY = {"channels": CHANNELS, "positions": 4, "embedding_size": 16, "text": TOWER, "image": TOWER}


@pytest.fixture(scope="module")
def tokenizer():
    return zoo.ByteBPETokenizer.train(CAPTIONS, vocabulary_size=280)


@pytest.fixture(scope="module")
def model(tokenizer):
    """A model that knows the pictures by heart."""
    keras.utils.set_random_seed(1)
    model = zoo.load("clip", weights=None, tokenizer=tokenizer, backbone=MeanColors(), **TINY)
    model.compile(keras.optimizers.Adam(0.004))
    annotations = model.annotate(tf.constant([image_bytes(image) for image in IMAGES]))
    features = {"annotations": annotations, "captions": [[each, each] for each in CAPTIONS]}
    features = tf.data.Dataset.from_tensor_slices(features).repeat(200)
    losses = model.fit(features, batch_size=len(IMAGES), captions_per_image=1, verbose=0)
    model.last_loss = losses.history["loss"][-1]
    return model


# ------------------------------------------------------------------------------------- the numbers


def test_predict_needs_as_many_images_as_texts(model):
    inputs = {"images": np.zeros((2, 4, CHANNELS), "float32"), "token_ids": [[3, 4]] * 3}
    inputs["token_ids"] = np.array(inputs["token_ids"], "int32")
    message = r"Received: 2 of images, 3 of token_ids\. .*call the model: model\(x\)"
    with pytest.raises(ValueError, match=message):
        model.predict(inputs, verbose=0)
    whole = model(inputs)
    assert whole.shape == (2, 3)
    fewer = {**inputs, "token_ids": inputs["token_ids"][:2]}
    np.testing.assert_allclose(model.predict(fewer, verbose=0), whole[:, :2], atol=1e-5)
    none = {name: each[:0] for name, each in inputs.items()}
    for x in (none, none["images"], []):
        with pytest.raises(ValueError, match="at least one row. Received: 0 of"):
            model.predict(x)


def test_recalls_are_those_of_a_sorted_list():
    generator = np.random.default_rng(0)
    similarities = generator.normal(size=(30, 90))
    owners = np.concatenate([np.arange(30), generator.integers(30, size=60)])
    found = retrieval_scores(similarities, owners)
    for k in (1, 5, 10):
        texts = [{*owners[np.argsort(-row)[:k]]} for row in similarities]
        images = [np.argsort(-column)[:k] for column in similarities.T]
        expected = np.mean([number in each for number, each in enumerate(texts)])
        assert found.image_to_text[k] == pytest.approx(100 * expected)
        expected = np.mean([owner in each for owner, each in zip(owners, images, strict=True)])
        assert found.text_to_image[k] == pytest.approx(100 * expected)


def test_constant_similarities_find_nothing():
    found = retrieval_scores(np.ones((20, 40)), np.repeat(np.arange(20), 2))
    assert found.image_to_text == found.text_to_image == {1: 0.0, 5: 0.0, 10: 0.0}


def test_an_image_without_a_text_finds_none():
    found = retrieval_scores(np.eye(3)[:, :2], [0, 1])
    assert found.image_to_text == {k: pytest.approx(200 / 3) for k in (1, 5, 10)}
    assert found.text_to_image == dict.fromkeys((1, 5, 10), 100.0)


def test_what_is_not_a_number_is_not_found():
    """A model that has diverged to NaN finds nothing; one such text is no hit."""
    found = retrieval_scores(np.full((20, 40), np.nan), np.repeat(np.arange(20), 2))
    assert found.image_to_text == found.text_to_image == {1: 0.0, 5: 0.0, 10: 0.0}
    similarities = np.eye(2)
    similarities[0] = np.nan
    found = retrieval_scores(similarities, [0, 1])
    assert (found.image_to_text[1], found.text_to_image[1]) == (50.0, 0.0)


@pytest.mark.parametrize("owners", [[0, 2], [0, -1], [0], [0, 1, 1], [0.0, 1.0]], ids=str)
def test_the_owners_of_texts_are_images(owners):
    with pytest.raises(ValueError, match="`owners` .* 2 integers from 0 to 1. Received"):
        retrieval_scores(np.eye(2), owners)


def test_similarities_have_two_axes():
    with pytest.raises(ValueError, match=r"`similarities` must be .*Received: .* shape \(2,\)"):
        retrieval_scores(np.ones(2), [0, 1])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("owners", [[0, 1, 2], [0, 0, 1, 2, 2, 2]])
def test_the_loss_is_two_cross_entropies(owners, smoothing):
    logits = np.random.default_rng(0).normal(size=(3, len(owners)))
    belongs = (np.arange(3)[:, None] == owners).astype("float32")

    def cross_entropy(row, right):
        log_probabilities = row - np.log(np.exp(row).sum())
        return -log_probabilities[right]

    losses = []
    for text, owner in enumerate(owners):
        others = [place for place in range(len(owners)) if owners[place] != owner]
        losses += [
            cross_entropy(logits[:, text], owner),
            cross_entropy(logits[owner, [text, *others]], 0),
        ]
        own = logits[owner, text]
        spread = own - 0.5 * (logits[:, text].mean() + logits[owner].mean())
        losses[-1] += 2 * smoothing * spread
    found = float(ContrastiveLoss(smoothing)(belongs, logits.astype("float32")))
    assert found == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("owners", [[0, 1, 2], [0, 0, 1, 2, 2, 2]])
def test_the_sigmoid_loss_judges_each_pair_by_itself(owners):
    logits = np.random.default_rng(0).normal(size=(3, len(owners)), scale=9.0)
    belongs = (np.arange(3)[:, None] == owners).astype("float64")
    signs = 2.0 * belongs - 1.0
    expected = np.sum(np.log1p(np.exp(-signs * logits))) / len(owners)
    assert float(SigmoidLoss()(belongs, logits.astype("float32"))) == pytest.approx(expected, 1e-5)
    far = np.array([[1e4, -1e4]], "float32")  # finite, and not rounded to 0
    assert float(SigmoidLoss()(np.array([[0.0, 1.0]]), far)) == pytest.approx(1e4)
    with tf.GradientTape() as tape:
        x = tf.constant(logits, tf.float32)
        tape.watch(x)
        loss = SigmoidLoss()(belongs, x)
    expected = (1.0 / (1.0 + np.exp(-logits)) - belongs) / len(owners)
    np.testing.assert_allclose(tape.gradient(loss, x), expected, rtol=1e-4, atol=1e-7)


# -------------------------------------------------------------------------------------- the towers


@pytest.mark.parametrize("pooling", ["attention", "end", "mean"])
def test_padding_changes_nothing(pooling):
    core = Clip(50, **{**TINY, "text": {**TOWER, "pooling": pooling, "is_causal": True}})
    ids = np.array([[1, 7, 9, 2]])
    padded = np.pad(ids, [[0, 0], [0, 3]])
    np.testing.assert_allclose(core.embed_texts(ids), core.embed_texts(padded), atol=1e-5)


def test_a_tower_tells_what_its_pooling_looked_at():
    core = Clip(50, **{**TINY, "text": {**TOWER, "num_layers": 0, "normalize": "post"}})
    ids = np.array([[1, 7, 9, 2, 0]])
    pooled, (weights,) = core.text_tower(ids, return_attention_scores=True)
    np.testing.assert_allclose(pooled, core.text_tower(ids), atol=1e-6)
    assert weights.shape == (1, TOWER["num_heads"], 1, 5)
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1.0, rtol=1e-5)
    assert np.all(weights.numpy()[..., -1] == 0.0)


def test_a_causal_tower_pools_at_the_end_token():
    core = Clip(50, **{**TINY, "text": {**TOWER, "pooling": "end", "is_causal": True}})
    found = core.embed_texts(np.array([[1, 7, 2, 9], [1, 7, 2, 8], [1, 8, 2, 9]]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.abs(found[0] - found[2]).max() > 1e-3


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_scale_is_100_at_most(dtype):
    core = Clip(50, **TINY, temperature=1e-3, dtype=dtype)
    inputs = {"images": np.ones((1, 4, CHANNELS)), "token_ids": np.array([[1, 2]])}
    assert abs(float(core(inputs)[0, 0])) <= 100.0
    assert float(core.scale()) == 100.0


@pytest.fixture(scope="module")
def siglip(tokenizer):
    sizes = {"positions": 4, "patch_size": 4, "text": TOWER, "image": TOWER, "max_length": 9}
    reader = zoo.ImageReader(size=8)
    return zoo.load("siglip", weights=None, tokenizer=tokenizer, reader=reader, **sizes)


def test_texts_of_a_siglip_have_one_length_and_no_start(siglip, tokenizer):
    ids = siglip.read_texts(tf.constant(["Red!", "red " * 9])).numpy()
    (red,) = tokenizer.tokenize(["red"]).to_list()
    assert ids[0].tolist() == [*red, 2, *[0] * (8 - len(red))]
    assert ids[1, -1] == 2
    assert ids.shape == (2, 9)


def test_padding_of_a_siglip_counts(siglip):
    core, ids = siglip.core, np.array([[7, 8, 2, 0, 0], [7, 8, 2, 0, 9], [7, 8, 2, 9, 0]])
    found = core.embed_texts(ids).numpy()
    assert min(np.abs(found[0] - found[1]).max(), np.abs(found[0] - found[2]).max()) > 1e-3


def test_each_pair_of_a_siglip_has_a_logit_of_its_own(siglip):
    core = siglip.core
    cosines = siglip.match(IMAGES, CAPTIONS)
    images, _ = siglip.see(tf.constant([image_bytes(image) for image in IMAGES]))
    ids = siglip.read_texts(tf.constant(CAPTIONS))
    logits = core({"images": images, "token_ids": ids})
    np.testing.assert_allclose(logits, 10.0 * cosines - 10.0, atol=1e-4)
    found = siglip.classify(IMAGES, CAPTIONS, return_probabilities=True)
    np.testing.assert_allclose(found.probabilities, 1.0 / (1.0 + np.exp(-logits)), atol=1e-6)
    few = siglip.classify(IMAGES, CAPTIONS[:2], return_probabilities=True)
    np.testing.assert_allclose(few.probabilities, found.probabilities[:, :2], atol=1e-6)
    assert isinstance(siglip.usual_loss(), SigmoidLoss)


def test_wrong_options_are_named(siglip, tokenizer):
    with pytest.raises(ValueError, match="`batch_size` must be at least 2.*batch_size=1"):
        siglip.batches([], [], batch_size=1)
    with pytest.raises(ValueError, match="An image has no end token"):
        ClipConfig(vocabulary_size=9, image={"pooling": "end"})
    with pytest.raises(ValueError, match="Did you mean 'mean'"):
        ClipConfig(vocabulary_size=9, image={"pooling": "maen"})
    with pytest.raises(ValueError, match="takes 49 vectors.*returns 4 of size 4"):
        zoo.load("clip", weights=None, tokenizer=tokenizer, backbone=MeanColors(), channels=4)
    parts = {"tokenizer": tokenizer, "reader": zoo.ImageReader(size=32)}
    with pytest.raises(ValueError, match="takes 196 vectors.*returns 4 of.*positions=4"):
        zoo.load("siglip", weights=None, **parts, text=TOWER, image=TOWER)


# ---------------------------------------------------------------------------------------- the task


def test_it_learns_which_caption_belongs(model):
    similarities = model.match(IMAGES, CAPTIONS)
    assert similarities.shape == (6, 6)
    assert similarities.dtype == np.float32
    assert similarities.argmax(axis=1).tolist() == list(range(6))
    assert model.last_loss < 1.0
    expected = model.embed(images=IMAGES) @ model.embed(texts=CAPTIONS).T
    np.testing.assert_allclose(similarities, expected, atol=1e-6)


def test_embeddings_are_unit_vectors(model):
    for found in (model.embed(texts=CAPTIONS[0]), model.embed(images=IMAGES[0])):
        assert found.shape == (16,)
        assert found.dtype == np.float32
        assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-5)
    assert model.embed(texts=[]).shape == (0, 16)
    with pytest.raises(ValueError, match="either texts=... or images=.*both"):
        model.embed(texts="a", images=IMAGES)


def test_annotations_have_the_vectors_of_their_images(model):
    annotations = model.annotate(tf.constant([image_bytes(image) for image in IMAGES])).numpy()
    found = model.embed_annotations(annotations, batch_size=4)
    np.testing.assert_allclose(found, model.embed(images=IMAGES), atol=1e-6)
    assert model.embed_annotations(annotations[:0]).shape == (0, 16)
    with pytest.raises(ValueError, match=r"array \(images, 4, 4\). Received: .*shape \(4, 4\)"):
        model.embed_annotations(annotations[0])
    with pytest.raises(ValueError, match=r"array \(images, 4, 4\). Received: \[\[1\], \[2, 3\]\]"):
        model.embed_annotations([[1], [2, 3]])
    with pytest.raises(ValueError, match="`batch_size` must be at least 1"):
        model.embed_annotations(annotations, batch_size=0)


def test_case_and_punctuation_do_not_count(model):
    found = model.embed(texts=["red before blue", "Red, before BLUE."])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_hidden_vectors_count_in_training_only(tokenizer):
    core = Clip(50, **{**TINY, "image": {**TOWER, "hiding": 0.9}})
    images = np.random.default_rng(0).normal(size=(2, 4, CHANNELS)).astype("float32")
    answers = [core.embed_images(images, training=is_training) for is_training in (0, 0, 1, 1)]
    np.testing.assert_array_equal(answers[0], answers[1])
    changed = images.copy()
    changed[:, 1:] *= [1.0, -2.0, 3.0, 4.0]
    assert np.abs(answers[0] - core.embed_images(changed)).max() > 1e-3
    assert np.abs(answers[0] - answers[2]).max() > 1e-4


def test_a_long_text_is_cut(model):
    assert model.read_texts(tf.constant(["red " * 500])).shape == (1, 77)


def test_labels_of_any_kind(model):
    assert model.classify(IMAGES, labels=CAPTIONS) == CAPTIONS
    assert model.classify(IMAGES[2], labels=CAPTIONS) == CAPTIONS[2]
    found = model.classify(IMAGES, CAPTIONS, return_probabilities=True)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, rtol=1e-5)
    assert found.probabilities.argmax(axis=1).tolist() == list(range(6))
    with pytest.raises(ValueError, match="`labels` must be a list"):
        model.classify(IMAGES, labels="a dog")


@pytest.mark.filterwarnings("error:.*softmax")
def test_one_label_is_certain(model):
    found = model.classify(IMAGES[:2], CAPTIONS[:1], return_probabilities=True)
    np.testing.assert_array_equal(found.probabilities, [[1.0], [1.0]])
    with pytest.raises(ValueError, match="a Matcher returns none"):
        found.plot()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    for number, image in enumerate(IMAGES):
        (folder / f"{number}.png").write_bytes(image_bytes(image))
    (folder / "notes.txt").write_text("no picture")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8 broken")
    return folder


def test_search_of_a_folder(model, photographs, monkeypatch):
    with pytest.warns(UserWarning, match="broken.jpg.*left out"):
        found = model.search(CAPTIONS[3], photographs, k=2)
    assert found.names[0] == photographs / "3.png"
    assert len(found.names) == 2
    assert found.similarities[0] > found.similarities[1]
    monkeypatch.setattr("zoo.tasks.searching.AT_ONCE", 2)
    with pytest.warns(UserWarning, match="broken.jpg.*left out"):
        again = model.search(CAPTIONS[3], photographs, k=2)
    assert again.names == found.names
    np.testing.assert_allclose(again.similarities, found.similarities, atol=1e-6)
    again = model.search(CAPTIONS[3], IMAGES, k=100)
    assert again.names[0] == 3
    assert len(again.names) == 6
    assert [axes.get_title() for axes in found.plot().axes] == [
        f"{value:.2f}" for value in found.similarities
    ]
    text = "a dog and another dog and a third dog run"
    assert "\n" in found._replace(query=text + " on grass").plot().get_suptitle()
    with pytest.raises(ValueError, match="There is no image"):
        model.search("a dog", pathlib.Path(__file__).parent)
    with pytest.raises(ValueError, match="at least one entry. Received: none"):
        model.search("a dog", [])
    with pytest.raises(
        ValueError, match="a folder or a list. Received: nope, which does not exist"
    ):
        model.search("a dog", "nope/")
    with pytest.raises(ValueError, match="matching_test.py, a file. Put it into a list"):
        model.search("a dog", __file__)


def test_a_picture_of_all_similarities(model):
    found = model.match(IMAGES[:2], CAPTIONS[:3], return_matches=True)
    figure = found.plot()
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert texts == [f"{value:.2f}" for value in found.similarities.T.ravel()]
    labels = [each.get_text() for axes in figure.axes for each in axes.get_yticklabels()]
    assert set(CAPTIONS[:3]) <= set(labels)
    text = "a dog and another dog and a third dog run"
    labels = Matches(np.zeros((1, 1)), [text], found.images[:1]).plot().axes[1].get_yticklabels()
    assert labels[0].get_text() == "a dog and another dog and a third\ndog run"
    for columns, rows in ((0, 2), (2, 0), (0, 0)):
        empty = Matches(np.zeros((columns, rows)), CAPTIONS[:rows], found.images[:columns])
        with pytest.raises(ValueError, match=f"Received: Matches of {columns} images and {rows}"):
            empty.plot()
    many = Matches(np.eye(1, 151), ["dog"] * 151, found.images[:1])
    assert not any(axes.texts for axes in many.plot().axes)


@pytest.mark.full
def test_batches_of_images_as_they_come(model, monkeypatch):
    monkeypatch.setattr(model, "run_eagerly", True)
    lists = [[caption] * (1 + number % 2) for number, caption in enumerate(CAPTIONS)]
    (batch,) = model.batches(IMAGES, lists)
    assert batch[0]["token_ids"].shape[0] == 9
    np.testing.assert_array_equal(np.sum(batch[1], axis=0), 1)
    np.testing.assert_array_equal(np.sum(batch[1], axis=1), [1, 2, 1, 2, 1, 2])
    expected = ContrastiveLoss()(batch[1], model.core(batch[0]))
    assert model.evaluate(IMAGES, lists, verbose=0) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("number", [0, -1, 1.5])
def test_captions_of_an_image_are_one_at_least(model, number):
    with pytest.raises(ValueError, match=rf"captions_per_image={number}"):
        model.batches(IMAGES, CAPTIONS, captions_per_image=number)


def test_every_epoch_draws_other_captions(model):
    captions = [[f"{word} {number}" for number in range(99)] for word in ("red", "blue")]
    batches = model.batches(IMAGES[:2], captions, captions_per_image=2, shuffle=True)
    one, two = (next(iter(batches))[0]["token_ids"].numpy() for _ in range(2))
    assert len(one) == len(two) == 4
    assert one.shape != two.shape or (one != two).any()


# ------------------------------------------------------------------------------- presets and export


@pytest.fixture(scope="module")
def preset(model, tmp_path_factory):
    return model.save_to_preset(tmp_path_factory.mktemp("preset") / "toy")


@pytest.mark.full
def test_a_preset_computes_the_same(model, preset):
    loaded = zoo.load(preset)
    np.testing.assert_allclose(loaded.match(IMAGES, CAPTIONS), model.match(IMAGES, CAPTIONS), 1e-5)
    card = json.loads((pathlib.Path(preset) / "card.json").read_text())
    assert card["task"] == "matching"
    assert card["fingerprint"] == [1.0]


def test_a_saved_model_gives_the_same_vectors(model, tmp_path):
    served = tf.saved_model.load(str(model.export(tmp_path / "clip"))).signatures
    texts = served["serving_default"](text=tf.constant(CAPTIONS))["embedding"]
    np.testing.assert_allclose(texts, model.embed(texts=CAPTIONS), atol=1e-5)
    encoded = [image_bytes(image) for image in IMAGES]
    images = served["images"](image_bytes=tf.constant([*encoded, b"none"]))["embedding"]
    np.testing.assert_allclose(images[:-1], model.embed(images=IMAGES), atol=1e-5)
    np.testing.assert_array_equal(images[-1], 0.0)


def test_a_config_makes_the_same_parts(model):
    again = zoo.Matcher.from_config(model.get_config())
    assert again.core.config == model.core.config
    assert again.backbone.fingerprint() == model.backbone.fingerprint()
    assert again.plain_texts is model.plain_texts


def test_quality_tells_every_recall(model):
    encoded = [image_bytes(image) for image in IMAGES]
    examples = {"image": encoded, "captions": [[each] for each in CAPTIONS]}
    scores = evaluate_matcher(model, tf.data.Dataset.from_tensor_slices(examples))
    quality = matcher_quality(scores, "validation")
    assert [entry["value"] for entry in quality] == [100.0] * 6
    assert quality[0]["metric"] == "R@1, image to text, %"


def test_the_command_line(model, photographs, monkeypatch, tmp_path):
    monkeypatch.setattr(zoo, "load", lambda name: model)
    run = CliRunner().invoke
    found = run(main, ["match", "toy", CAPTIONS[3], str(photographs), "-k", "2"])
    lines = found.stdout.splitlines()
    assert "broken.jpg" in found.stderr
    assert found.exit_code == 1
    assert len(lines) == 2
    assert lines[0].split("\t")[1] == str(photographs / "3.png")
    found = run(main, ["match", "toy", CAPTIONS[3], str(photographs / "3.png")])
    assert found.exit_code == 0
    found = run(main, ["embed", "toy", "red before blue", str(photographs / "0.png"), ""])
    vectors = [json.loads(line) for line in found.stdout.splitlines()]
    assert [len(vector) for vector in vectors] == [16, 16, 16]
    labels = ["--label", "red before blue", "--label", "green before red"]
    found = run(main, ["classify", "toy", str(photographs / "0.png"), *labels])
    assert found.output.split("\t")[0] in labels
    answers, folder = tmp_path / "answers.tsv", str(photographs)
    files = ["--input", folder, "--output", str(answers)]
    assert run(main, ["classify", "toy", *files, *labels]).exit_code == 1  # for broken.jpg
    assert answers.read_text().split("\t")[:2] == ["0.png", found.output.split("\t")[0]]
    for command in (["classify", "toy", folder, *labels], ["embed", "toy", folder]):
        refused = run(main, command)
        assert (refused.exit_code, "a folder" in refused.stderr) == (1, True)
    found = run(main, ["embed", "toy", "--input", folder, "--output", str(tmp_path / "a.jsonl")])
    assert found.exit_code == 1
    rows = [json.loads(line or "{}") for line in (tmp_path / "a.jsonl").read_text().split("\n")]
    assert (rows[0]["file"], rows[0]["embedding"]) == ("0.png", vectors[1])
    (tmp_path / "a.txt").write_text("red before blue\n")
    files = ["--input", str(tmp_path / "a.txt"), "--output", str(tmp_path / "b.jsonl")]
    assert run(main, ["embed", "toy", *files]).exit_code == 0
    assert json.loads((tmp_path / "b.jsonl").read_text())["embedding"] == vectors[0]
    broken, whole = str(photographs / "broken.jpg"), str(photographs / "0.png")
    for command, *others in (["classify", *labels], ["embed"]):
        found = run(main, [command, "toy", whole, broken, whole, *others])
        assert found.stderr.startswith(f"Error: The file '{broken}' cannot be read as an image")
        assert found.exit_code == 1
        first, nothing, last = found.stdout.splitlines()
        assert (first, nothing) == (last, "")
        assert first
    (tmp_path / "album").mkdir()
    refused = run(main, ["match", "toy", "red before blue", str(tmp_path)])
    assert "Its subfolders are not searched" in refused.stderr
    refused = run(main, ["classify", "toy", str(photographs / "0.png")])
    assert refused.exit_code == 1
    assert "needs labels to choose from" in refused.output
