"""The upper layers of a network, which are fine-tuned: outputs, frozen weights, presets."""

import keras
import numpy as np
import pytest

import zoo
from zoo.models import networks
from zoo.models.backbone import Backbone
from zoo.models.clip import Clip, ClipConfig
from zoo.models.network_tail import NetworkTail

SIZE, BELOW, ABOVE = 64, "conv_pw_12_relu", ["conv_pw_13_relu", "conv_dw_13_relu"]
TAIL = {"network": "MobileNet", "image_size": SIZE, "after": BELOW, "layers": ABOVE[:1]}
TOWER = {"num_layers": 0, "size": 8, "num_heads": 2}


@pytest.fixture(scope="module")
def network():
    """A network with random weights, including those of batch normalization."""
    network = networks.make_network("MobileNet", SIZE, None)
    networks.draw_weights(network)
    generator = np.random.default_rng(1)
    for variable in network.weights:
        if len(variable.shape) == 1:
            variable.assign(generator.uniform(0.5, 1.5, variable.shape))
    return network


@pytest.fixture(scope="module")
def weights(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "network.weights.h5"
    network.save_weights(path)
    return path


@pytest.fixture(scope="module")
def grids(network):
    """The outputs of a layer and of two layers above it."""
    layers = [network.get_layer(name).output for name in (BELOW, *ABOVE)]
    images = np.random.default_rng(0).uniform(-1, 1, (3, SIZE, SIZE, 3))
    return [grid.numpy() for grid in keras.Model(network.input, layers)(images)]


def vectors_of(grid):
    return grid.reshape(3, -1, grid.shape[-1])


def test_both_parts_are_the_network(weights, grids):
    below, *above = grids
    expected = np.concatenate(above, axis=-1)
    tail = NetworkTail(**{**TAIL, "layers": ABOVE})
    assert (tail.positions, tail.channels) == (4, 2048)
    assert np.abs(tail(vectors_of(below)) - vectors_of(expected)).max() > 0.1
    tail.start_from(weights)
    np.testing.assert_allclose(tail(vectors_of(below)), vectors_of(expected), rtol=1e-3, atol=1e-3)


def test_it_learns_and_keeps_the_statistics(weights, grids):
    core = Clip(
        50,
        channels=1024,
        positions=4,
        embedding_size=8,
        tail=TAIL,
        text=TOWER,
        image=TOWER,
        dtype="mixed_bfloat16",
    )
    token_ids = np.array([[1, 7, 2], [1, 8, 2], [1, 9, 2]])
    inputs = {"images": vectors_of(grids[0]), "token_ids": token_ids}
    core(inputs)
    tail = core.image_tower.tail
    tail.start_from(weights)
    assert {each.dtype for each in tail.weights} == {"float32"}
    trained = {id(each) for each in tail.trainable_variables}
    before = [each.numpy() for each in tail.weights]
    core.compile(keras.optimizers.SGD(0.1), zoo.metrics.ContrastiveLoss(), run_eagerly=True)
    core.train_on_batch(inputs, np.eye(3, dtype="float32"))
    for weight, old in zip(tail.weights, before, strict=True):
        assert np.any(weight.numpy() != old) == (id(weight) in trained), weight.path
        assert ("moving" in weight.name) == (id(weight) not in trained)


@pytest.mark.full  # `catalog_test` loads that of CLIP
def test_a_preset_holds_it_and_not_what_is_below(grids, tmp_path):
    tokenizer = zoo.ByteBPETokenizer.train(["a dog", "a cat"], vocabulary_size=262)
    model = zoo.load(
        "clip",
        weights=None,
        tokenizer=tokenizer,
        backbone=Backbone("MobileNet", [BELOW], SIZE, weights=None),
        channels=1024,
        positions=4,
        tail=TAIL,
        text=TOWER,
        image=TOWER,
    )
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    assert again.core.config == model.core.config
    expected = model.core.embed_images(vectors_of(grids[0]))
    np.testing.assert_allclose(again.core.embed_images(vectors_of(grids[0])), expected, atol=1e-6)
    assert not any("conv_pw_1_" in each.path for each in again.core.weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "MobileNet9"}, "Unknown network of keras.applications 'MobileNet9'"),
        ({"after": "block_99_add"}, "Unknown layer of NetworkTail 'block_99_add'"),
        ({"layers": ["conv_pw_1_relu"]}, "must be computed from the output of `after` alone"),
        ({"grid": [3, 3]}, "`grid` of NetworkTail must be rows and columns, at most"),
        ({"image_size": 4096}, "`image_size` of NetworkTail must be at most 1024"),
    ],
)
def test_what_no_network_has(change, message):
    with pytest.raises(ValueError, match=message):
        NetworkTail(**{**TAIL, **change})


def test_patches_have_no_tail():
    with pytest.raises(ValueError, match="is for the vectors that a backbone makes"):
        ClipConfig(vocabulary_size=9, patch_size=8, tail=TAIL)


def test_vectors_that_the_tail_does_not_take():
    with pytest.raises(ValueError, match="takes 4 vectors of size 1024 .*channels=96"):
        Clip(9, channels=96, positions=4, tail=TAIL, text=TOWER, image=TOWER)
