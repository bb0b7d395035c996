"""Masks: rules, tiles, composition, serialization."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import masks

BATCH, HEADS, QUERIES, KEYS = 2, 3, 4, 6
RNG = np.random.default_rng(0)


def some(*shape):
    return RNG.random(shape) < 0.6


CAUSAL = np.tri(QUERIES, KEYS, KEYS - QUERIES, dtype=bool)[None, None]
KEY_PADDING, QUERY_PADDING = some(BATCH, KEYS), some(BATCH, QUERIES)
PAIRS = some(BATCH, HEADS, QUERIES, KEYS)

# name: (mask, what it must be as an array that broadcasts to (batch, heads, queries, keys))
SINGLE = {
    "causal": (masks.Causal(), CAUSAL),
    "keys": (masks.Keys(KEY_PADDING), KEY_PADDING[:, None, None, :]),
    "queries": (masks.Queries(QUERY_PADDING, KEYS), QUERY_PADDING[:, None, :, None]),
    "pairs": (masks.Array(PAIRS[0, 0]), PAIRS[:1, :1]),
    "pairs of a batch": (masks.Array(PAIRS[:, 0]), PAIRS[:, :1]),
    "pairs of heads": (masks.Array(PAIRS), PAIRS),
}
KEYS_MASK, QUERIES_MASK, ARRAY_MASK = (SINGLE[name][0] for name in ("keys", "queries", "pairs"))
KEYS_ARRAY, QUERIES_ARRAY, PAIRS_ARRAY = (SINGLE[name][1] for name in ("keys", "queries", "pairs"))
COMPOSED = {
    "and": (masks.Causal() & KEYS_MASK, CAUSAL & KEYS_ARRAY),
    "or": (masks.Causal() | KEYS_MASK, CAUSAL | KEYS_ARRAY),
    "not": (~masks.Causal(), ~CAUSAL),
    "nested": (
        ~(masks.Causal() & KEYS_MASK) | (QUERIES_MASK & ~ARRAY_MASK),
        ~(CAUSAL & KEYS_ARRAY) | (QUERIES_ARRAY & ~PAIRS_ARRAY),
    ),
}
ALL = {**SINGLE, **COMPOSED}


def full(mask):
    return ops.convert_to_numpy(mask(QUERIES, KEYS))


@pytest.mark.parametrize("name", ALL)
def test_whole_array_equals_numpy(name):
    mask, expected = ALL[name]
    shape = (BATCH, HEADS, QUERIES, KEYS)
    np.testing.assert_array_equal(
        np.broadcast_to(full(mask), shape), np.broadcast_to(expected, shape)
    )


@pytest.mark.parametrize("name", ALL)
def test_array_is_boolean_of_rank_4(name):
    array = full(ALL[name][0])
    assert array.dtype == bool
    assert array.ndim == 4


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("rows", "columns"), [((0, 2), (0, 3)), ((1, 4), (2, 6)), ((3, 4), (5, 6))]
)
def test_tile_equals_the_slice_of_the_whole_array(name, rows, columns):
    mask, _ = ALL[name]
    query_positions, key_positions = masks.positions(QUERIES, KEYS)
    tile = mask.tile(query_positions[slice(*rows)], key_positions[slice(*columns)])
    whole = np.broadcast_to(full(mask), (BATCH, HEADS, QUERIES, KEYS))
    expected = whole[:, :, slice(*rows), slice(*columns)]
    np.testing.assert_array_equal(np.broadcast_to(tile, expected.shape), expected)


def test_positions_align_queries_to_the_end_of_the_keys():
    query_positions, key_positions = masks.positions(2, 5)
    assert ops.convert_to_numpy(query_positions).tolist() == [3, 4]
    assert ops.convert_to_numpy(key_positions).tolist() == [0, 1, 2, 3, 4]


def test_more_queries_than_keys_leave_the_first_without_any():
    assert ops.convert_to_numpy(masks.Causal()(3, 2))[0, 0].astype(int).tolist() == [
        [0, 0],
        [1, 0],
        [1, 1],
    ]


def test_combine_skips_what_is_none():
    causal = masks.Causal()
    assert masks.combine(None, None) is None
    assert masks.combine(None, causal, None) is causal
    np.testing.assert_array_equal(full(masks.combine(causal, KEYS_MASK)), CAUSAL & KEYS_ARRAY)


@pytest.mark.parametrize(
    "mask",
    [
        masks.Causal(),
        ~masks.Causal(),
        masks.Array(PAIRS),
        masks.Causal() & ~(masks.Array(PAIRS[0, 0]) | masks.Causal()),
    ],
)
def test_config_makes_the_same_mask_again(mask):
    config = keras.saving.serialize_keras_object(mask)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(mask)
    np.testing.assert_array_equal(full(again), full(mask))


def test_masks_of_ones_own_compose():
    class Even(masks.Mask):
        def tile(self, query_positions, key_positions):
            return (key_positions % 2 == 0)[None, None, None, :]

    even = (np.arange(KEYS) % 2 == 0)[None, None, None]
    np.testing.assert_array_equal(full(Even() & masks.Causal()), even & CAUSAL)


def test_integers_count_as_booleans():
    visible = masks.as_boolean(np.array([[1, 0, 2]]), "value_mask", ranks=(2,))
    assert ops.convert_to_numpy(visible).tolist() == [[True, False, True]]
