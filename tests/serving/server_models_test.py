"""Models of a server: versions exported while it runs, foreign signatures, images, classifiers."""

import base64
import concurrent.futures
import io
import struct
import threading
import time
import types
import zlib

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

import zoo
from tests.serving.client import predict, serving
from tests.zoo.pictures import IMAGES
from zoo.readers.images import image_bytes
from zoo.server import ExportedModel, Limits, LoadedModel
from zoo.server import models as server_models
from zoo.server.errors import Refused
from zoo.serving import Endpoint, write_version


def export_times(folder, factor):
    """Writes a version of a model that multiplies numbers by a factor."""
    inputs = [tf.TensorSpec([None], tf.float32, name="x")]
    endpoint = Endpoint(lambda x: {"y": factor * x}, inputs)
    return write_version(folder, [], {"serving_default": endpoint})


def test_a_new_version_is_taken_over_while_requests_run(tmp_path):
    folder, answers, stop = tmp_path / "times", [], threading.Event()
    export_times(folder, 2.0)
    exported = ExportedModel("times", folder)
    with serving([exported], Limits(refresh_seconds=0.05)) as client:

        def ask():
            while not stop.is_set():
                answers.append(predict(client, "times", {"instances": [1.0, 2.5]})[:2])

        asking = threading.Thread(target=ask)
        asking.start()
        export_times(folder, 3.0)
        deadline = time.time() + 60
        while exported.version == 1 and time.time() < deadline:
            time.sleep(0.05)
        stop.set()
        asking.join()
        assert client("/v1/models/times/versions/2")[0] == 200
        assert predict(client, "times", {"inputs": [1.0]})[1] == {"outputs": [3.0]}
    assert {status for status, _ in answers} == {200}
    assert [2.0, 5.0] in [answer["predictions"] for _, answer in answers]


def test_a_broken_version_leaves_the_old_one_and_is_told_once(tmp_path, capfd):
    folder, told = tmp_path / "times", "times: a new version could not be loaded"
    export_times(folder, 2.0)
    exported, output = ExportedModel("times", folder), ""
    with serving([exported], Limits(refresh_seconds=0.02)) as client:
        broken = folder / "7" / "saved_model.pb"
        broken.parent.mkdir()
        for number, content in enumerate([b"none", b"another"], start=1):
            broken.write_bytes(content)
            deadline = time.time() + 60
            while output.count(told) < number and time.time() < deadline:
                time.sleep(0.02)
                output += capfd.readouterr().out
            time.sleep(0.2)
            output += capfd.readouterr().out
            assert output.count(told) == number
        assert predict(client, "times", {"inputs": [1.0]})[1] == {"outputs": [2.0]}


def test_a_folder_without_versions_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no exported version"):
        ExportedModel("x", tmp_path)


class Foreign(tf.Module):
    """Functions whose inputs and outputs this package does not write."""

    def signatures(self):
        row, scalar = tf.TensorSpec([None], name="x"), tf.TensorSpec([], name="t")
        flags, anything = tf.TensorSpec([None], tf.bool, "x"), tf.TensorSpec(None, name="x")
        functions = {
            "total": (lambda x: {"y": tf.reduce_sum(x)}, [row]),
            "scaled": (lambda x, t: {"y": x * t}, [row, scalar]),
            "not": (lambda x: {"y": tf.logical_not(x)}, [flags]),
            "same": (lambda x: {"y": x + 0.0}, [anything]),
            "none": (lambda: {"y": tf.constant([1.0])}, []),
        }
        return {
            name: tf.function(function, signature)
            for name, (function, signature) in functions.items()
        }


@pytest.mark.parametrize(
    ("name", "told"), [("times/1", r"serve .*/times\."), ("saved", r"move it to .*/saved/1\.")]
)
def test_one_version_is_no_folder_of_versions(tmp_path, name, told):
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "saved_model.pb").touch()
    with pytest.raises(ValueError, match=f"{name} is a single SavedModel.*: {told}"):
        server_models.model_of(str(tmp_path / name))


def test_signatures_that_other_programs_wrote(tmp_path):
    module = Foreign()
    tf.saved_model.save(module, str(tmp_path / "own" / "0001"), module.signatures())
    own = ExportedModel("own", tmp_path / "own")
    with serving([own]) as client:

        def ask(signature, **content):
            status, answer, _ = predict(client, "own", {"signature_name": signature, **content})
            return status, answer.get("outputs", answer.get("predictions"))

        status, told, _ = client("/v1/models/own/metadata")
        same = told["metadata"]["signature_def"]["signature_def"]["same"]["inputs"]["x"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            totals = list(pool.map(lambda n: ask("total", inputs=[n, 1]), range(16)))
        assert ask("total", instances=[1, 2]) == (400, None)
        assert ask("scaled", inputs={"x": [1, 2], "t": 3}) == (400, None)
        assert ask("not", instances=[True, False]) == (200, [False, True])
        assert ask("not", instances=[1, 0]) == (400, None)
        assert ask("same", instances=[1, 2]) == (200, [1.0, 2.0])
        assert ask("same", inputs=3) == (400, None)
        assert ask("none", inputs={}) == (400, None)
    assert own.version == 1
    assert (status, same["tensor_shape"]) == (200, {"dim": [], "unknown_rank": True})
    assert totals == [(200, number + 1.0) for number in range(16)]


def of_many_pixels(side):
    """Returns a small PNG file whose header claims a square of this size."""
    encoded = image_bytes(np.zeros((8, 8), "uint8"))
    head = b"IHDR" + struct.pack(">II", side, side) + encoded[24:29]
    return encoded[:12] + head + struct.pack(">I", zlib.crc32(head)) + encoded[33:]


def gif(frames):
    """Returns a GIF file of frames of 60 × 60 pixels, with a comment."""
    images = [PIL.Image.new("L", (60, 60), 40 * number) for number in range(frames)]
    encoded = io.BytesIO()
    images[0].save(encoded, "GIF", append_images=images[1:], save_all=True, comment=b"!,")
    return encoded.getvalue()


@pytest.mark.parametrize("name", ["show_attend_tell", pytest.param("blip", marks=pytest.mark.full)])
def test_images_come_as_base64(model, served, name):
    with serving([served(name)], Limits(picture_pixels=10_000)) as client:
        content = [{"b64": base64.b64encode(image_bytes(each)).decode()} for each in IMAGES[:2]]
        content.append({"b64": ""})
        _, answer, _ = predict(client, name, {"instances": content})
        for encoded in (image_bytes(np.zeros((101, 100), "uint8")), of_many_pixels(60_000)):
            large = base64.b64encode(encoded).decode()
            for status, told, _ in (
                predict(client, name, {"instances": [{"b64": large}]}),
                client(f"/page/{name}", {"picture": large}),
            ):
                assert (status, "at most 10000 pixels" in told["error"]) == (400, True)
    texts = [row["text"] for row in answer["predictions"]]
    assert texts == [*model(name).caption(IMAGES[:2]), ""]


@pytest.mark.parametrize("size", [None, -1, -200])
def test_a_gif_counts_with_all_its_frames(size):
    few, many = (gif(frames)[:size] for frames in (2, 4))
    limits = Limits(picture_pixels=8000)
    limits.require_picture(few)
    with pytest.raises(Refused, match="at most 8000 pixels"):
        limits.require_picture(many)


def test_a_gif_counts_as_wide_as_its_widest_frame_and_as_high_as_its_highest():
    frames = (struct.pack("<4H", 0, 0, *sides) for sides in ((100, 1), (1, 100)))
    parts = (b"," + frame + bytes([0, 2, 1, 0, 0]) for frame in frames)
    encoded = b"GIF89a" + struct.pack("<2H3x", 1, 1) + b"".join(parts) + b";"
    Limits(picture_pixels=10_000).require_picture(encoded)
    with pytest.raises(Refused, match="at most 9999 pixels"):
        Limits(picture_pixels=9_999).require_picture(encoded)


def test_classifiers_are_served():
    options = {"patch_size": 8, "num_layers": 1, "size": 8, "num_heads": 2, "hidden": 8}
    reader, labels = zoo.ImageReader(size=16), ["cat", "dog"]
    task = zoo.load("vit", weights=None, reader=reader, labels=labels, **options)
    with serving([LoadedModel("vit", task)]) as client:
        content = [{"b64": base64.b64encode(image_bytes(each)).decode()} for each in IMAGES[:2]]
        _, answer, _ = predict(client, "vit", {"instances": content})
        status, page, _ = client("/")
    assert [row["label"] for row in answer["predictions"]] == task.classify(list(IMAGES[:2]))
    assert status == 200
    assert '"models": null' in page
    assert "this server has none" in page


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("vit_mnist", "vit_mnist"),
        ("hf://user/bert-base@v1.0", "bert-base"),
        ("https://a.org/b/toy.zip#sha256=00", "toy"),
    ],
)
def test_names_of_models_have_a_place_in_addresses(monkeypatch, asked, name):
    task = types.SimpleNamespace(endpoints=dict)
    monkeypatch.setattr(server_models.loading, "load", lambda _: task)
    monkeypatch.setattr(server_models, "LoadedModel", lambda name, *_: name)
    assert server_models.model_of(asked) == name
