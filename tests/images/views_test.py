"""Views are reproducible, and crops have the right sizes."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.data.views import SMALLEST_AREA, view_of

SIZE = 33
NAMES = [f"{number}.jpg" for number in range(200)]


@pytest.fixture(scope="module")
def maps():
    """Pictures whose channels encode the origin of each pixel: its row, its column, and 0."""
    rows, columns = np.meshgrid(*[np.linspace(0, 1, SIZE)] * 2, indexing="ij")
    picture = np.stack([rows, columns, np.zeros_like(rows)], axis=-1).astype("float32")
    return tf.constant(np.tile(picture, (len(NAMES), 1, 1, 1)))


def test_the_first_view_is_the_picture_and_the_second_its_mirror_image(maps):
    np.testing.assert_array_equal(view_of(maps, NAMES, 0), maps)
    np.testing.assert_array_equal(view_of(maps, NAMES, 1), maps[:, :, ::-1])


@pytest.mark.parametrize("view", [2, 7])
def test_further_views_are_parts_half_of_them_mirrored(maps, view):
    parts = view_of(maps, NAMES, view).numpy()
    assert parts.shape == maps.shape
    top, bottom = parts[:, 0, 0, 0], parts[:, -1, 0, 0]
    left, right = parts[:, 0, 0, 1], parts[:, 0, -1, 1]
    is_mirrored = left > right
    left, right = np.minimum(left, right), np.maximum(left, right)
    area = (bottom - top) * (right - left)
    assert (np.stack([top, left]) >= 0).all()
    assert (np.stack([bottom, right]) <= 1).all()
    assert (area >= SMALLEST_AREA - 1e-6).all()
    assert area.min() < 0.84 < 0.96 < area.max()
    assert 0.35 < is_mirrored.mean() < 0.65
    assert np.corrcoef(top, left)[0, 1] < 0.3
    # No distortion: rows and columns are evenly spaced between the corners.
    steps = np.diff(parts[:, :, 0, 0], axis=1)
    np.testing.assert_allclose(steps, np.tile(steps[:, :1], SIZE - 1), atol=1e-5)


def test_a_part_depends_on_name_and_view_alone(maps):
    parts = view_of(maps, NAMES, 2)
    np.testing.assert_array_equal(view_of(maps[:3], NAMES[:3], 2), parts[:3])
    np.testing.assert_array_equal(view_of(maps[:3], NAMES[:3][::-1], 2), parts[:3][::-1])
    assert len(np.unique(parts.numpy().reshape(len(NAMES), -1), axis=0)) == len(NAMES)
    assert np.abs(parts - view_of(maps, NAMES, 3)).max() > 0.01
    first = view_of(maps[:1], NAMES[:1], 2).numpy()[0, [0, -1], [0, -1], :2]
    np.testing.assert_allclose(first, PART_OF_THE_FIRST, atol=1e-5)


# Existing folders of features must remain valid.
PART_OF_THE_FIRST = [[0.00123, 0.99659], [0.97426, 0.03325]]


def test_inside_a_data_set_of_unknown_size(maps):
    data = tf.data.Dataset.from_tensor_slices((NAMES[:5], maps[:5])).batch(3)
    parts = [*data.map(lambda names, images: view_of(images, names, 2)).as_numpy_iterator()]
    np.testing.assert_array_equal(np.concatenate(parts), view_of(maps[:5], NAMES[:5], 2))
