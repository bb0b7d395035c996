"""Learning from arrays alone: what batches hold, what is learned, and work without TensorFlow."""

import dataclasses
import json
import os
import runpy
import subprocess
import sys

import keras
import numpy as np
import pytest

from zoo.learning import job
from zoo.learning.job import ARRAYS, HISTORY, LEARNED, Job
from zoo.learning.learner import Learner
from zoo.learning.pictures import Pictures
from zoo.learning.warp import Warp
from zoo.learning.windows import Windows
from zoo.models.transformer_lm import TransformerLanguageModel

SIZES = {"num_layers": 1, "size": 8, "num_heads": 2, "context_length": 6, "dropout": 0.0}
WITHOUT_TENSORFLOW = """
import runpy, sys
sys.modules["tensorflow"] = None  # as if it were not installed
import keras  # before the zoo, which must not register its tasks then
runpy.run_module("zoo.learning", run_name="__main__")
"""


def optimizer(learning_rate=0.01):
    options = {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": None}
    return keras.optimizers.AdamW(learning_rate, weight_decay=0.1, **options)


def core(seed=1, **sizes):
    keras.utils.set_random_seed(seed)
    model = TransformerLanguageModel(12, **{**SIZES, **sizes}, dtype="float32")
    model.build()
    return model


def make_job(**options):
    return Job(
        "transformer_lm",
        core().get_config(),
        "windows",
        {"batch_size": 4, "context_length": 6},
        keras.optimizers.serialize(optimizer()),
        dtype="float32",
        **{"epochs": 2, **options},
    )


def stream(length=100):
    return np.random.default_rng(0).integers(12, size=length).astype("uint16")


# ---------------------------------------------------------------------------------------- batches


def test_windows_are_pieces_of_the_text_and_others_have_no_labels():
    text, other = np.arange(100), np.arange(200, 260)
    data = Windows({"tokens": text, "unlabelled": other}, batch_size=4, context_length=5)
    assert len(data) == round(100 / (4 * 5))
    seen = []
    for _ in range(2):
        inputs, labels, weights = data[1]
        np.testing.assert_array_equal(np.diff(inputs), 1)
        np.testing.assert_array_equal(inputs[:, 0] >= 200, [False, False, True, True])
        np.testing.assert_array_equal(labels[:2], inputs[:2] + 1)
        np.testing.assert_array_equal(labels[2:], -1)
        assert weights.min() == 1.0
        seen.append(inputs)
        data.on_epoch_end()
    assert (seen[0] != seen[1]).any()


@pytest.mark.parametrize("name", ["tokens", "unlabelled"])
def test_a_text_without_a_window_is_refused(name):
    arrays = {"tokens": np.arange(7), "unlabelled": np.arange(7)}
    inputs, *_ = Windows(arrays, batch_size=4, context_length=6)[0]
    np.testing.assert_array_equal(inputs, np.tile(np.arange(6), (4, 1)))
    with pytest.raises(ValueError, match=f"`{name}` .* more than context_length=6.*Received: 6"):
        Windows({**arrays, name: np.arange(6)}, batch_size=4, context_length=6)


def test_pictures_come_once_an_epoch_and_scaled():
    pixels = np.arange(20, dtype="uint8")[:, None, None, None] * np.ones((1, 4, 4, 1), "uint8")
    still = {"degrees": 0.0, "scale": 0.0, "shear": 0.0, "shift": 0.0, "bend": 0.0}
    arrays = {"pixels": pixels, "labels": np.arange(20)}
    data = Pictures(arrays, batch_size=5, mean=0.1, deviation=0.5, warps=still)
    batches = [data[number] for number in range(len(data))]
    labels = np.concatenate([labels for _, labels, _ in batches])
    assert sorted(labels) == list(range(20))
    for images, labels, _ in batches:
        expected = (labels[:, None, None, None] / 255 - 0.1) / 0.5 * np.ones((1, 4, 4, 1))
        np.testing.assert_allclose(data.lens(images), expected, atol=1e-6)


def test_a_warp_shifts_turns_and_bends():
    """A picture of coordinates shows that pixels move as far as allowed, and no further."""
    places = np.linspace(-0.5, 0.5, 28, dtype="float32")
    picture = np.stack(np.meshgrid(places, places, indexing="ij"), axis=-1) + 1.0  # 0 is outside
    pictures = np.repeat(picture[None], 64, axis=0)
    still = {"degrees": 0.0, "scale": 0.0, "shear": 0.0, "shift": 0.0, "bend": 0.0}

    def moved(**options):
        found = np.array(Warp(**{**still, **options}, seed=1)(pictures))
        inside = found[:, 10:18, 10:18]  # away from the border
        return inside - picture[10:18, 10:18]

    shifted = moved(shift=0.1)
    np.testing.assert_allclose(np.ptp(shifted, axis=(1, 2)), 0.0, atol=1e-5)
    assert 0.08 < np.abs(shifted).max() <= 0.1 + 1e-5
    turned = moved(degrees=20.0)
    radius = np.hypot(*np.moveaxis(picture[10:18, 10:18] - 1.0, -1, 0))
    distance = np.hypot(turned[..., 0], turned[..., 1])
    assert (distance < 2 * radius * np.sin(np.radians(10.0)) + 1e-4).all()
    assert distance.max() > radius.max() * np.radians(15.0)
    assert 0.01 < moved(bend=0.03).std() < 0.05


# --------------------------------------------------------------------------------------- learning


def test_labels_are_those_of_the_teachers_and_the_text_in_their_shares():
    student, teachers = core(1), [core(2), core(3)]
    learner = Learner(student, teachers, teacher_share=0.7)
    inputs = stream(12).reshape(2, 6).astype("int32")
    labels = np.where(np.arange(12).reshape(2, 6) % 3 == 2, -1, inputs[:, ::-1])
    loss = learner.compute_loss(inputs, labels, student(inputs), np.ones((2, 6), "float32"))
    expected = np.mean([softmax(each(inputs)) for each in teachers], axis=0)
    real = np.where(labels[..., None] < 0, expected, np.eye(12)[labels])
    target = 0.7 * expected + 0.3 * real
    np.testing.assert_allclose(
        loss, -(target * np.log(softmax(student(inputs)))).sum(-1).mean(), rtol=1e-5
    )
    assert {id(each) for each in learner.trainable_variables} == {
        id(each) for each in student.trainable_variables
    }


def softmax(logits):
    powers = np.exp(np.array(logits, "float64"))
    return powers / powers.sum(-1, keepdims=True)


def test_only_the_learner_looks_through_a_lens():
    model = core()
    learner = Learner(model, lens=lambda inputs: 0 * inputs)
    inputs = stream(12).reshape(2, 6).astype("int32")
    np.testing.assert_allclose(learner(inputs), model(0 * inputs))


@pytest.mark.full
def test_a_job_is_done_once_and_keeps_the_averaged_weights(tmp_path, monkeypatch):
    arrays = {"tokens": stream()}
    core(2).save_weights(tmp_path / "teacher.weights.h5")
    teacher = {
        "architecture": "transformer_lm",
        "config": core().get_config(),
        "weights": "../teacher.weights.h5",
    }
    made = make_job(teachers=(teacher,), teacher_share=0.5)
    weights = job.learned(tmp_path / "job", lambda: (made, arrays))
    assert weights == tmp_path / "job" / LEARNED
    assert len((tmp_path / "job" / HISTORY).read_text().splitlines()) == 3
    trained = core()
    trained.load_weights(weights)
    fresh = core(seed=made.seed)
    assert (trained.get_weights()[0] != fresh.get_weights()[0]).any()

    # The average, by hand: the same batches and steps, without fit.
    keras.utils.set_random_seed(made.seed)
    by_hand, same = core(seed=made.seed), optimizer()
    same.exclude_from_weight_decay(var_names=job.UNDECAYED)
    learner = Learner(by_hand, [core(2)], teacher_share=0.5)
    data = Windows(arrays, seed=made.seed, **made.options)
    learner.compile(same, run_eagerly=True)
    for _ in range(made.epochs):
        data.on_epoch_end()  # Keras has looked at the data before the first epoch
        for number in range(len(data)):
            learner.train_on_batch(*data[number])
    averages = same._model_variables_moving_average
    for found, expected in zip(trained.trainable_variables, averages, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)

    monkeypatch.setattr(keras.Model, "fit", None)
    assert job.learned(tmp_path / "job", None) == weights


@pytest.mark.full  # `kills_test` always kills a training
def test_a_job_that_broke_off_while_it_wrote_a_file_goes_on(tmp_path, monkeypatch):
    save, seeds = keras.Model.save_weights, []
    job.write(tmp_path, make_job(), {"tokens": stream()})

    def windows(arrays, seed, **options):
        seeds.append(seed)
        return Windows(arrays, seed=seed, **options)

    monkeypatch.setitem(job.DATA, "windows", windows)
    for name, epochs in (("epoch-2.weights.h5", 1), (LEARNED, 2)):

        def fail(self, filepath, name=name, **options):
            save(self, filepath, **options)
            if filepath.name == name:
                filepath.write_bytes(filepath.read_bytes()[:100])
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(keras.Model, "save_weights", fail)
            with pytest.raises(KeyboardInterrupt):
                job.work(tmp_path)
        assert not (tmp_path / LEARNED).exists()
        assert [path.name for path in tmp_path.glob("backup/*")] == [f"epoch-{epochs}.weights.h5"]
        assert len((tmp_path / HISTORY).read_text().splitlines()) == 1 + epochs
    trained = core()
    trained.load_weights(job.work(tmp_path))
    assert len((tmp_path / HISTORY).read_text().splitlines()) == 3  # no more epochs
    assert seeds == [1, 2, 3]
    assert not (tmp_path / "backup").exists()


def test_weights_that_scale_or_shift_do_not_decay(tmp_path, monkeypatch):
    asked = []

    def fit(self, *arguments, **options):
        self.optimizer.build(self.trainable_variables)
        asked.extend(
            each.path
            for each in self.trainable_variables
            if not self.optimizer._use_weight_decay(each)
        )

    monkeypatch.setattr(keras.Model, "fit", fit)
    job.write(tmp_path, make_job(), {"tokens": stream()})
    job.work(tmp_path)
    names = {path.rpartition("/")[-1] for path in asked}
    assert names == {"gamma", "beta"}


def test_a_folder_without_a_job(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["zoo.learning", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"no job\.json in .*A recipe writes it"):
        runpy.run_module("zoo.learning", run_name="__main__")


@pytest.mark.full
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_it_runs_where_tensorflow_is_not_installed(backend, tmp_path):
    """Others give the same numbers: all start from the weights of the file."""
    pytest.importorskip(backend)
    begun = core(5)
    begun.save_weights(tmp_path / "begin.weights.h5")
    made = make_job(begin_with="../begin.weights.h5", epochs=1)
    arrays = {"tokens": stream(60)}
    job.write(tmp_path / "here", made, arrays)
    job.write(tmp_path / "there", made, arrays)
    here = job.work(tmp_path / "here")
    subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW, str(tmp_path / "there")],
        check=True,
        env={**os.environ, "KERAS_BACKEND": backend},
        timeout=120,  # PyTorch's compiler would need longer
    )
    found = []
    for path in (here, tmp_path / "there" / LEARNED):
        begun.load_weights(path)
        found.append([weight.numpy() for weight in begun.weights])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_job_is_plain_files(tmp_path):
    made = make_job(teachers=[{"architecture": "x"}])
    job.write(tmp_path, made, {"tokens": stream()})
    assert {path.name for path in tmp_path.iterdir()} == {"job.json", ARRAYS}
    assert json.loads((tmp_path / "job.json").read_text())["epochs"] == 2
    assert dataclasses.asdict(made)["teachers"] == [{"architecture": "x"}]
