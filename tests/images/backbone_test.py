"""The backbone against `keras.applications`, its weights, saving, and its fingerprint."""

import random
import urllib.error

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.applications.mobilenet_v2 import preprocess_input
from keras.src.utils import file_utils

from tests import imagenet_weights
from tests.images import pictures
from zoo.models import networks
from zoo.models.backbone import Backbone
from zoo.readers.images import read_images

SIZE = 32

real_weights = pytest.mark.skipif(not imagenet_weights.ARE_HERE, reason=imagenet_weights.REASON)


@pytest.fixture(scope="module")
def images():
    """Noise with dark and bright pixels."""
    return np.random.default_rng(0).uniform(0, 255, (3, SIZE, SIZE, 3)).astype("float32")


@pytest.fixture(scope="module")
def by_hand(images):
    """Outputs of layers of a network of `keras.applications` with random weights."""
    network = networks.make_network("MobileNetV2", SIZE, None)
    networks.draw_weights(network)

    def outputs(*layers):
        model = keras.Model(network.input, [network.get_layer(layer).output for layer in layers])
        results = model(preprocess_input(images.copy()), training=False)
        return [np.array(result) for result in keras.tree.flatten(results)]

    return outputs


@pytest.fixture
def no_weights(monkeypatch, tmp_path):
    """A machine without internet access and without weights."""

    def unreachable(url, *arguments):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(file_utils, "urlretrieve", unreachable)
    monkeypatch.setattr(file_utils.config, "keras_home", lambda: str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))


class Parent(keras.Model):
    """A model that owns a backbone."""

    def __init__(self, backbone, **kwargs):
        super().__init__(**kwargs)
        self.backbone = backbone
        self.dense = keras.layers.Dense(2)

    def build(self, images_shape):
        self.dense.build(self.backbone.compute_output_shape(images_shape))

    def call(self, images):
        return self.dense(self.backbone(images))

    def get_config(self):
        return {"backbone": keras.saving.serialize_keras_object(self.backbone)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["backbone"]))


def test_annotations_are_the_outputs_of_the_layer_row_by_row(backbone, by_hand, images):
    (expected,) = by_hand("block_6_expand_relu")
    annotations = backbone(images)
    assert annotations.dtype == tf.float32
    assert annotations.shape == (3, 16, 192)
    assert backbone.grid == (4, 4)
    assert backbone.channels == 192
    np.testing.assert_allclose(annotations, expected.reshape(3, 16, 192), rtol=1e-4, atol=1e-4)


def test_summary_of_a_model_that_was_called(images, backbone):
    lines, model = [], Parent(backbone)
    model(images)
    model.summary(print_fn=lines.append, line_length=120)
    (row,) = [row for row in "\n".join(lines).split("\n") if "(Backbone)" in row]
    assert f"({len(images)}, 16, 192)" in row


def test_several_layers_are_put_on_the_grid_of_the_first(by_hand, images):
    layers = ["block_6_expand_relu", "block_13_expand_relu", "block_3_expand_relu"]
    same, coarse, fine = by_hand(*layers)
    assert coarse.shape[1:3] == (2, 2)
    assert fine.shape[1:3] == (8, 8)
    backbone = Backbone("MobileNetV2", layers, image_size=SIZE, weights=None)
    assert backbone.grid == (4, 4)
    assert backbone.channels == 192 + 576 + 144
    annotations = np.reshape(backbone(images), (3, 4, 4, -1))
    np.testing.assert_allclose(annotations[..., :192], same, rtol=1e-4, atol=1e-4)
    upsampled = tf.image.resize(coarse, (4, 4))
    np.testing.assert_allclose(annotations[..., 192:768], upsampled, rtol=1e-4, atol=1e-4)
    averaged = fine.reshape(3, 4, 2, 4, 2, 144).mean(axis=(2, 4))
    np.testing.assert_allclose(annotations[..., 768:], averaged, rtol=1e-4, atol=1e-4)


def test_every_network_gets_its_own_pixels():
    # VGG16 expects BGR with the ImageNet mean subtracted, and no scaling.
    backbone = Backbone("VGG16", "block1_conv1", image_size=SIZE, weights=None)
    network = networks.make_network("VGG16", SIZE, None)
    networks.draw_weights(network)
    picture = np.full((1, SIZE, SIZE, 3), [10.0, 20.0, 30.0], "float32")
    pixels = np.full((1, SIZE, SIZE, 3), [30 - 103.939, 20 - 116.779, 10 - 123.68], "float32")
    expected = network.get_layer("block1_conv1")(pixels)
    np.testing.assert_allclose(backbone(picture), np.reshape(expected, (1, -1, 64)), rtol=1e-4)


def test_first_pictures_inside_of_graphs(images, backbone):
    expected = backbone(images)
    fresh = Backbone.from_config(backbone.get_config())
    data = tf.data.Dataset.from_tensor_slices(images).batch(2).map(fresh)
    found = np.concatenate(list(data.as_numpy_iterator()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    function = tf.function(fresh, input_signature=[tf.TensorSpec([None, SIZE, SIZE, 3])])
    np.testing.assert_allclose(function(images), expected, rtol=1e-4, atol=1e-4)
    assert function(images[:0]).shape == (0, 16, 192)


@pytest.mark.full
def test_pictures_in_a_compiled_graph(images, backbone):
    compiled = tf.function(backbone, jit_compile=True)
    np.testing.assert_allclose(compiled(images), backbone(images), rtol=1e-3, atol=1e-3)


def test_in_a_functional_model(images, backbone):
    inputs = keras.Input((SIZE, SIZE, 3))
    outputs = backbone(inputs)
    assert outputs.shape == (None, 16, 192)
    assert outputs.dtype == "float32"
    model = keras.Model(inputs, outputs)
    np.testing.assert_allclose(model.predict(images, verbose=0), backbone(images), rtol=1e-4)


def test_float32_and_the_same_random_weights_under_every_policy(images, backbone):
    assert not backbone.weights
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        random.seed(5)
        other = Backbone.from_config({**backbone.get_config(), "fingerprint": None})
        annotations = other(images)
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy(policy)
    assert annotations.dtype == tf.float32
    np.testing.assert_allclose(annotations, backbone(images), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(other.fingerprint(), backbone.fingerprint(), rtol=1e-3)


def test_whole_numbers_are_pictures_too(images, backbone):
    whole = images.astype("uint8")
    np.testing.assert_array_equal(backbone(whole), backbone(whole.astype("float32")))


def test_config_round_trip(backbone):
    fingerprint = backbone.fingerprint()
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(backbone))
    assert restored.get_config() == backbone.get_config()
    assert restored.get_config()["fingerprint"] == fingerprint
    assert restored.name == "MobileNetV2"


def test_a_parent_is_saved_and_loaded_without_the_network(tmp_path, images, backbone, monkeypatch):
    parent = Parent(backbone)
    expected = parent(images)
    parent.save_weights(tmp_path / "parent.weights.h5")
    with h5py.File(tmp_path / "parent.weights.h5") as file:
        shapes = []
        file.visititems(lambda _, item: shapes.append(getattr(item, "shape", None)))
        assert sorted(filter(None, shapes)) == [(2,), (192, 2)]
    fresh = Parent(Backbone.from_config(backbone.get_config()))
    with monkeypatch.context() as patch:
        # The network must not be loaded before the first picture.
        patch.setattr("zoo.models.backbone._frozen", None)
        fresh.build((None, SIZE, SIZE, 3))
        fresh.load_weights(tmp_path / "parent.weights.h5")
    np.testing.assert_allclose(fresh(images), expected, rtol=1e-4, atol=1e-4)
    parent.save(tmp_path / "parent.keras")
    with keras.saving.custom_object_scope({"Parent": Parent}):
        restored = keras.saving.load_model(tmp_path / "parent.keras")
    np.testing.assert_allclose(restored(images), expected, rtol=1e-4, atol=1e-4)
    assert (tmp_path / "parent.keras").stat().st_size < 50_000


LOADED = """
import concurrent.futures, pathlib, sys
import numpy as np
import tensorflow as tf

folder = pathlib.Path(sys.argv[1])
serve = tf.saved_model.load(folder / "model").signatures["serving_default"]
files = [path.read_bytes() for path in sorted(folder.glob("*.picture"))]
expected = np.load(folder / "expected.npy")

def check(order):
    outputs = serve(image_bytes=tf.constant([files[n] for n in order], tf.string))
    assert outputs["annotations"].shape == (len(order), 16, 192)
    np.testing.assert_allclose(outputs["annotations"], expected[order], rtol=1e-3, atol=1e-3)
    assert outputs["is_image"].numpy().tolist() == [files[n] != b"broken" for n in order]

check(np.array([], int))
generator = np.random.default_rng(0)
orders = [generator.integers(0, len(files), generator.integers(0, 6)) for _ in range(24)]
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    list(pool.map(check, orders))
assert "zoo" not in sys.modules
"""


@pytest.mark.full
def test_a_saved_model_reads_pictures_in_a_fresh_process(tmp_path, backbone, run_python):
    def annotate(image_bytes):
        images, is_image = read_images(image_bytes, SIZE)
        return {"annotations": backbone(images), "is_image": is_image}

    archive = keras.export.ExportArchive()
    signature = [tf.TensorSpec([None], tf.string, "image_bytes")]
    archive.add_endpoint("serving_default", annotate, input_signature=signature)
    archive.write_out(str(tmp_path / "model"), verbose=False)
    files = [*pictures.FILES.values(), b"broken"]
    for number, content in enumerate(files):
        (tmp_path / f"{number:03d}.picture").write_bytes(content)
    np.save(tmp_path / "expected.npy", annotate(tf.constant(files))["annotations"])
    result = run_python(LOADED, tmp_path)
    assert result.returncode == 0, result.stderr


def test_the_fingerprint_tells_weights_layers_and_sizes_apart(backbone):
    fingerprint = backbone.fingerprint()
    assert len(fingerprint) == 8
    assert all(type(number) is float for number in fingerprint)
    backbone.check_fingerprint(fingerprint)
    backbone.check_fingerprint([1.01 * number for number in fingerprint])
    others = [
        Backbone("MobileNetV2", ["block_6_depthwise_relu"], image_size=SIZE, weights=None),
        Backbone("MobileNetV2", ["block_6_expand_relu"], image_size=SIZE + 32, weights=None),
    ]
    for other in others:
        with pytest.raises(ValueError, match=r"MobileNetV2 .weights=None. .* \d+% off"):
            backbone.check_fingerprint(other.fingerprint())


def test_other_weights_are_refused_at_the_first_picture(images, backbone):
    expected = [number + 1.0 for number in backbone.fingerprint()]
    other = Backbone.from_config({**backbone.get_config(), "fingerprint": expected})
    for _ in range(2):
        with pytest.raises(ValueError, match="give other features than the expected ones"):
            other(images)


def test_weights_that_cannot_be_had(no_weights, tmp_path, capsys):
    missing = Backbone(layers=["block_6_expand_relu"], image_size=SIZE)
    assert missing.grid == (4, 4)
    assert missing.get_config()["fingerprint"] is None
    with pytest.raises(ConnectionError) as error:
        missing.fingerprint()
    message = str(error.value)
    assert f"are not in {tmp_path / 'models'} and could not be downloaded" in message
    assert f"/tensorflow/keras-applications/mobilenet_v2/{imagenet_weights.FILE}\n" in message
    assert "KERAS_HOME" in message
    written = capsys.readouterr()
    assert "Downloading data from" in written.err
    assert written.out == ""  # where a command writes its answers


def test_unknown_names_and_wrong_shapes(backbone):
    with pytest.raises(ValueError, match=r"'MobilNetV2'. Did you mean 'MobileNetV2'"):
        Backbone("MobilNetV2")
    with pytest.raises(ValueError, match="of MobileNetV2 'out_rel'. Did you mean 'out_relu'"):
        Backbone("MobileNetV2", ["out_rel"], image_size=SIZE)
    with pytest.raises(ValueError, match="at least one layer"):
        Backbone("MobileNetV2", [], image_size=SIZE)
    with pytest.raises(ValueError, match="`image_size` of Backbone must be a positive integer"):
        Backbone(image_size=0)
    with pytest.raises(ValueError, match=r"Received: shape \(1, 16, 16, 3\).*size=32\)"):
        backbone(np.zeros((1, 16, 16, 3)))


@real_weights
def test_real_weights_compute_what_keras_applications_computes():
    network = keras.applications.MobileNetV2(include_top=False, input_shape=(224, 224, 3))
    images = np.random.default_rng(0).uniform(0, 255, (2, 224, 224, 3)).astype("float32")
    expected = np.reshape(network(preprocess_input(images.copy()), training=False), (2, 49, 1280))
    backbone = Backbone()
    np.testing.assert_allclose(backbone(images), expected, rtol=1e-3, atol=1e-3)
    backbone.check_fingerprint(FINGERPRINT)


FINGERPRINT = [-0.3616, 0.02378, 1.209, -0.66, -0.1412, -1.301, 1.168, 1.722]


@pytest.mark.full
def test_a_coarser_grid_holds_averages(by_hand, images):
    """2 × 2 cells become one; the config restores the grid."""
    backbone = Backbone("MobileNetV2", ["block_13_expand_relu"], SIZE, weights=None, grid=(1, 1))
    (expected,) = by_hand("block_13_expand_relu")
    assert expected.shape[1:3] == (2, 2)
    np.testing.assert_allclose(backbone(images)[:, 0], expected.mean(axis=(1, 2)), atol=1e-4)
    again = Backbone.from_config(backbone.get_config())
    assert again.grid == (1, 1)
    message = r"`grid` of Backbone must be rows and columns"
    with pytest.raises(ValueError, match=message):
        Backbone("MobileNetV2", ["block_13_expand_relu"], SIZE, weights=None, grid=(3, 1))
    for grid in ((0, 1), (1,)):
        with pytest.raises(ValueError, match=message):
            networks.require_coarser("Backbone", grid, (2, 2))
