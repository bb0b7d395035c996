"""The text data that jobs learn from: what is masked, labelled and padded, and how often."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from zoo.architectures import ARCHITECTURES
from zoo.learning import job
from zoo.learning.masked import MaskedWindows, OfPlaces
from zoo.learning.texts import LabelledTexts, flat
from zoo.readers.text import Tokenizer
from zoo.readers.text.text_reader import TextReader

IDS = {"start_id": 2, "end_id": 3, "mask_id": 4}
TEXTS = {"max_length": 16, "hidden": 0.0, "pad_id": 0, "lengths": [8, 16, 32, 64], **IDS}
SIZES = [0, 1, 5, 6, 7, 14, 15, 28, 29, 40, 56, 57, 90] * 3
LABELS = [number % 2 for number in range(len(SIZES))]
SHAPE = {
    "vocabulary_size": 50,
    "num_layers": 1,
    "size": 8,
    "embedding_size": 4,
    "num_heads": 2,
    "hidden": 16,
    "max_length": 16,
    "relative_buckets": 4,
}


@pytest.fixture(scope="module")
def texts():
    draws = np.random.default_rng(0)
    texts = [draws.integers(6, 50, size) for size in SIZES]
    for number, text in enumerate(texts):
        text[:1] = 10 + number  # its first token identifies a text
    return texts


# ----------------------------------------------------------------------------------------- masked


def test_one_token_of_five_is_told_and_most_of_them_are_masks():
    stream = np.random.default_rng(0).integers(5, 300, 5000).astype("uint16")
    stream[::7] = IDS["end_id"]
    data = MaskedWindows({"tokens": stream}, 64, 51, told=0.2, vocabulary_size=300, **IDS)
    assert len(data) == 5000 // (64 * 51)
    inputs, labels, weights = zip(*(data[number] for number in range(4)), strict=True)
    ids = np.concatenate([each["token_ids"] for each in inputs])
    places = np.concatenate([each["places"] for each in inputs])
    labels, weights = np.concatenate(labels), np.concatenate(weights)
    assert ids.shape == (256, 51)
    assert places.shape == (256, 10)
    assert (ids[:, 0] == IDS["start_id"]).all()
    assert (np.diff(np.sort(places)) > 0).all()
    assert (places > 0).all()
    assert (labels != IDS["end_id"]).all()
    assert (weights == 1).all()
    whole = ids.copy()
    np.put_along_axis(whole, places, labels, axis=1)
    views = np.lib.stride_tricks.sliding_window_view(stream, 50)
    assert all((views == row).all(axis=1).any() for row in whole[::16, 1:])
    shown = np.take_along_axis(ids, places, axis=1)
    assert abs((shown == IDS["mask_id"]).mean() - 0.8) < 0.03
    assert abs((shown == labels).mean() - 0.1) < 0.03
    np.testing.assert_array_equal(np.delete(ids[0], places[0]), np.delete(whole[0], places[0]))
    counts = np.bincount(places.ravel(), minlength=51)[1:]  # all places are equally likely
    assert counts.min() > 25
    assert counts.max() < 80


def test_windows_differ_by_number_and_epoch_and_come_again_with_the_seed():
    stream = {"tokens": np.arange(5, 2005).astype("uint16")}
    first, again = (
        MaskedWindows(stream, 2, 9, told=0.2, vocabulary_size=300, **IDS) for _ in range(2)
    )
    ids = [first[0][0]["token_ids"], first[1][0]["token_ids"]]
    np.testing.assert_array_equal(again[0][0]["token_ids"], ids[0])
    first.on_epoch_end()
    ids.append(first[0][0]["token_ids"])
    assert len({each.tobytes() for each in ids}) == 3


def test_a_short_text_is_a_window():
    data = MaskedWindows({"tokens": np.array([7, 8, 3])}, 2, 9, 0.2, vocabulary_size=50, **IDS)
    inputs, labels, _ = data[0]
    assert inputs["token_ids"].shape == (2, 4)
    assert set(labels.ravel()) <= {7, 8}


# ------------------------------------------------------------------------------------------ texts


def test_every_text_comes_once_an_epoch_with_its_label(texts):
    data = LabelledTexts(flat(texts, LABELS), 4, **TEXTS)
    orders = []
    for _ in range(2):
        found = []
        for number in range(len(data)):
            ids, labels, weights = data[number]
            assert ids.shape[0] == 4
            found += [
                (int(row[0, 1]), int(label))
                for row, label, weight in zip(ids, labels, weights, strict=True)
                if weight
            ]
            assert (ids[weights == 0] == 0).all()
        expected = [
            (int(text[0]) if len(text) else IDS["end_id"], label)
            for text, label in zip(texts, LABELS, strict=True)
        ]
        assert sorted(found) == sorted(expected)
        orders.append(found)
        data.on_epoch_end()
    assert len(data) == -(-len(SIZES) // 4)
    assert orders[0] != orders[1]


def test_texts_are_padded_little_and_few_programs_are_compiled(texts):
    data = LabelledTexts(flat(texts, LABELS), 4, **TEXTS)
    shapes = [data[number][0].shape for number in range(len(data))]
    assert set(shapes) == {(4, 1, 8), (4, 1, 16), (4, 2, 16), (4, 4, 16)}
    assert shapes[:2] == [(4, 1, 8), (4, 4, 16)]  # so Keras sees which sizes vary
    assert shapes.count((4, 1, 8)) == sum(size <= 6 for size in SIZES) // 4


def test_chunks_are_those_of_the_reader(texts):
    tokenizer = Tokenizer.train(["".join(map(chr, range(33, 127)))], vocabulary_size=300)
    reader = TextReader(tokenizer, max_length=16)
    options = {**TEXTS, **{name: getattr(tokenizer, name) for name in (*IDS, "pad_id")}}
    data = LabelledTexts(flat(texts, LABELS), 4, **options)
    for number in range(len(data)):
        rows, _ = data.batches[number]
        ragged = tf.ragged.constant([texts[row].tolist() for row in rows], dtype=tf.int32)
        expected = reader.chunks(ragged.to_tensor(tokenizer.pad_id), ragged.row_lengths()).numpy()
        found = data[number][0][: len(rows)]
        if max(len(texts[row]) for row in rows) <= 56:
            whole = np.full(found.shape, tokenizer.pad_id)
            whole[:, : expected.shape[1], : expected.shape[2]] = expected
            np.testing.assert_array_equal(found, whole)


def test_a_long_text_loses_its_middle():
    text = np.arange(6, 106)
    data = LabelledTexts(flat([text], [1]), 1, **TEXTS)
    ids, labels, weights = data[0]
    assert ids.shape == (1, 4, 16)
    assert (ids[0, :, 0] == IDS["start_id"]).all()
    assert (ids[0, :, -1] == IDS["end_id"]).all()
    assert ids[0, :, 1:-1].ravel().tolist() == [*text[:28], *text[-28:]]
    assert labels.tolist() == weights.tolist() == [1]


def test_large_vocabularies_long_texts_and_many_labels_fit():
    texts, labels = [np.arange(70_000), np.array([250_000])], [0, 300]
    arrays = flat(texts, labels)
    np.testing.assert_array_equal(arrays["tokens"], np.concatenate(texts))
    assert arrays["sizes"].tolist() == [70_000, 1]
    assert arrays["labels"].tolist() == labels
    small = flat([np.array([3, 4])], [1])
    assert {array.dtype.itemsize for array in small.values()} == {1}


def test_a_share_of_the_tokens_is_hidden(texts):
    arrays, options = flat(texts * 10, LABELS * 10), {**TEXTS, "hidden": 0.2}
    data, plain = LabelledTexts(arrays, 8, **options), LabelledTexts(arrays, 8, **TEXTS)
    pairs = [(data[number][0], plain[number][0]) for number in range(len(data))]
    is_hidden = np.concatenate([(found != whole).ravel() for found, whole in pairs])
    found = np.concatenate([found.ravel() for found, _ in pairs])
    whole = np.concatenate([whole.ravel() for _, whole in pairs])
    assert (found[is_hidden] == IDS["mask_id"]).all()
    assert not is_hidden[whole < 5].any()
    assert abs(is_hidden[whole >= 5].mean() - 0.2) < 0.02


def test_a_length_of_part_of_a_chunk_is_refused(texts):
    with pytest.raises(ValueError, match="must be multiples of it. Received: 24"):
        LabelledTexts(flat(texts, LABELS), 4, **{**TEXTS, "lengths": [8, 24]})


# ------------------------------------------------------------------------------------------- jobs


@pytest.mark.full
def test_a_job_of_gaps_teaches_the_whole_core(texts, tmp_path):
    masked = ARCHITECTURES["text_encoder_masked"]
    core = masked.core(**masked.defaults, **SHAPE)
    made = job.Job(
        "text_encoder_masked",
        core.get_config(),
        "masked",
        {"batch_size": 4, "length": 16, "told": 0.2, "vocabulary_size": 50, **IDS},
        keras.optimizers.serialize(
            keras.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=None)
        ),
        epochs=1,
        dtype="float32",
    )
    job.write(tmp_path, made, {"tokens": np.concatenate(texts).astype("uint16")})
    core.build()
    core.load_weights(job.work(tmp_path))
    keras.utils.set_random_seed(made.seed)
    fresh = masked.core(**masked.defaults, **SHAPE)
    fresh.build()
    for weight, before in zip(core.trainable_variables, fresh.trainable_variables, strict=True):
        assert np.isfinite(weight.numpy()).all(), weight.path
        assert (weight.numpy() != before.numpy()).any(), weight.path


def test_logits_of_places_are_those_of_the_core():
    core = ARCHITECTURES["text_encoder_masked"].core(head="masked", **SHAPE)
    ids, places = np.array([[2, 7, 8, 9], [2, 5, 6, 3]]), np.array([[1, 3], [2, 0]])
    found = OfPlaces(core)({"token_ids": ids, "places": places}).numpy()
    np.testing.assert_allclose(found, core(ids).numpy()[[[0], [1]], places], atol=1e-5)
