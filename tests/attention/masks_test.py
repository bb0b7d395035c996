"""Masks: rules pair by pair, tiles, composition, serialization, text."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, masks
from tests.attention.compiled import compiled
from tests.attention.mask_cases import (
    ALL,
    BATCH,
    DATA,
    HEADS,
    IDS,
    KEY_PADDING,
    KEYS,
    NUMBERS,
    PAIRS,
    QUERIES,
    QUERY_PADDING,
    brute_force,
)
from tests.attention.saved import check_file

LENGTHS = [(4, 6), (6, 6), (6, 4), (1, 5), (13, 13)]
# Irregular positions: with gaps, repeated, and in reverse order.
SCATTERED = [5, 2, 2, 11, 0], [7, 0, 3, 3, 12, 1]


def full(mask, query_length=QUERIES, key_length=KEYS):
    return in_full(mask(query_length, key_length))


def in_full(tile):
    """A tile as NumPy booleans, repeated for each example and head."""
    tile = ops.convert_to_numpy(tile)
    assert tile.dtype == bool
    assert tile.ndim == 4
    return np.broadcast_to(tile, (BATCH, HEADS, *tile.shape[2:]))


def assert_same(tile, expected):
    tile = in_full(tile)
    np.testing.assert_array_equal(np.broadcast_to(tile, expected.shape), expected)


@pytest.mark.few(60)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_whole_array_equals_the_definition(name, lengths):
    mask, rule = ALL[name]
    query_length, key_length = lengths
    stand = range(key_length - query_length, key_length)
    assert_same(mask(query_length, key_length), brute_force(rule, stand, range(key_length)))


@pytest.mark.parametrize("name", ALL)
def test_positions_may_be_any(name):
    mask, rule = ALL[name]
    tile = mask.tile(*(ops.convert_to_tensor(positions, "int32") for positions in SCATTERED))
    assert_same(tile, brute_force(rule, *SCATTERED))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ALL)
def test_compiled_tile_equals_the_definition(name):
    mask, rule = ALL[name]
    positions = [np.array(positions, "int32") for positions in SCATTERED]
    assert_same(compiled(mask.tile)(*positions), brute_force(rule, *SCATTERED))


@pytest.mark.few(2)
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about tf.function")
@pytest.mark.parametrize("name", ALL)
def test_lengths_may_be_unknown(name):
    import tensorflow as tf

    mask, rule = ALL[name]
    vector = tf.TensorSpec([None], tf.int32)
    tile = tf.function(mask.tile, input_signature=[vector, vector])
    for size in (3, 5):
        positions = [np.array(positions[:size], "int32") for positions in SCATTERED]
        assert_same(tile(*positions), brute_force(rule, *positions))


# masks of a batch: (function that makes the mask, data)
OF_A_BATCH = {
    "keys": (masks.Keys, KEY_PADDING),
    "queries": (lambda visible: masks.Queries(visible, KEYS), QUERY_PADDING),
    "pairs of heads": (masks.Array, PAIRS),
    "documents": (masks.Document, np.array(IDS, "int32")),
    "lengths": (masks.Lengths, np.array([1, 5], "int32")),
    "prefixes": (masks.Prefix, np.array([0, 2], "int32")),
    "prefix": (masks.Prefix, np.array(3, "int32")),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", OF_A_BATCH)
def test_data_may_come_with_the_batch(name):
    make, data = OF_A_BATCH[name]
    _, rule = ALL[name]
    positions = [ops.convert_to_tensor(positions, "int32") for positions in SCATTERED]
    tile = compiled(lambda data, *positions: make(data).tile(*positions))
    assert_same(tile(data, *positions), brute_force(rule, *SCATTERED))
    assert_same(make(ops.convert_to_tensor(data)).tile(*positions), brute_force(rule, *SCATTERED))


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


@pytest.mark.few(15)
@pytest.mark.parametrize("name", [name for name in NUMBERS if "both ways" not in name])
def test_the_last_query_sees_what_it_saw_in_the_full_sequence(name):
    mask, _ = NUMBERS[name]
    np.testing.assert_array_equal(full(mask, 1, 9), full(mask, 9, 9)[:, :, -1:])
    np.testing.assert_array_equal(full(mask, 9, 9), full(mask, 13, 13)[:, :, :9, :9])


def test_combine_skips_what_is_none():
    causal, keys = masks.Causal(), DATA["keys"][0]
    assert masks.combine() is None
    assert masks.combine(None, None) is None
    assert masks.combine(None, causal, None) is causal
    expected = full(causal) & full(keys)
    np.testing.assert_array_equal(full(masks.combine(causal, None, keys)), expected)


A, B, C = (ALL[name][0] for name in ("pairs of heads", "dilated", "documents"))
# name: two equal masks
LAWS = {
    "and commutes": (A & B, B & A),
    "or commutes": (A | B, B | A),
    "and is associative": ((A & B) & C, A & (B & C)),
    "or is associative": ((A | B) | C, A | (B | C)),
    "and distributes": (A & (B | C), (A & B) | (A & C)),
    "or distributes": (A | (B & C), (A | B) & (A | C)),
    "De Morgan of and": (~(A & B), ~A | ~B),
    "De Morgan of or": (~(A | B), ~A & ~B),
    "double negation": (~~A, A),
    "and is idempotent": (A & A, A),
    "absorption": (A | (A & B), A),
    "many at once": (masks.And(A, B, C), A & B & C),
    "any at once": (masks.Or(A, B, C), A | B | C),
    "one alone": (masks.And(A), masks.Or(A)),
    "unbounded window": (masks.SlidingWindow(None, 0), masks.Causal()),
    "dilation of 1": (masks.Dilated(2, 1, 1), masks.SlidingWindow(2, 1)),
    "global list": (masks.GlobalTokens([0, 1]), masks.GlobalTokens(2)),
    "names": (masks.And("causal", B), masks.Causal() & B),
}


@pytest.mark.parametrize("law", LAWS)
def test_composition_follows_the_law(law):
    first, second = LAWS[law]
    np.testing.assert_array_equal(full(first), full(second))


def test_what_hides_everything_and_nothing():
    assert not full(A & ~A).any()
    assert full(A | ~A).all()


def test_masks_of_ones_own_compose():
    class Even(masks.Mask):
        def tile(self, query_positions, key_positions):
            return (key_positions % 2 == 0)[None, None, None, :]

    even = (np.arange(KEYS) % 2 == 0)[None, None, None]
    expected = even & np.tri(QUERIES, KEYS, KEYS - QUERIES, dtype=bool)
    assert (full(Even() & masks.Causal()) == expected).all()
    assert repr(~Even() | masks.Causal()) == "~Even() | Causal()"


@pytest.mark.parametrize(
    "joined",
    [lambda a, b: a and b, lambda a, b: a or b, lambda a, b: not a],
    ids=["and", "or", "not"],
)
def test_masks_have_no_truth_value(joined):
    with pytest.raises(TypeError, match=r"The mask Causal\(\) .* with &, \| and ~"):
        joined(masks.Causal(), masks.SlidingWindow(1, 1))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float16"])
def test_numbers_count_as_booleans(dtype):
    numbers = np.array([[1, 0, 2]], dtype)
    visible = masks.as_boolean(numbers, "value_mask", ranks=(2,))
    assert ops.convert_to_numpy(visible).tolist() == [[True, False, True]]
    assert full(masks.Array(numbers)).any(axis=(0, 1, 2)).tolist()[:3] == [True, False, True]


def test_names_are_those_of_masks_without_arguments():
    assert masks.names() == ["big_bird", "causal", "longformer"]
    assert repr(masks.get("big_bird")) == "BigBird()"
    assert masks.get("longformer").get_config() == {
        "window": 512,
        "num_global_tokens": 1,
        "dilation": 1,
    }


SAVED = {**NUMBERS, "pairs": DATA["pairs"], "pairs of heads": DATA["pairs of heads"]}


@pytest.mark.parametrize("name", SAVED)
def test_config_makes_the_same_mask_again(name):
    mask, _ = SAVED[name]
    config = keras.saving.serialize_keras_object(mask)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(mask)
    assert again.get_config() == mask.get_config()
    assert repr(again) == repr(mask)
    np.testing.assert_array_equal(full(again), full(mask))
    np.testing.assert_array_equal(full(masks.get(config)), full(mask))


def test_numpy_numbers_are_saved_as_plain_numbers():
    mask = masks.SlidingWindow(np.int64(2), np.int32(1)) | masks.Lengths(np.array([1, 5]))
    mask = mask & masks.GlobalTokens(np.array([1, 4])) & masks.Prefix(np.int64(3))
    config = masks.get(keras.saving.serialize_keras_object(mask)).get_config()
    assert "int" not in repr(config)
    assert config == mask.get_config()


@pytest.mark.parametrize("make", [masks.Lengths, masks.Prefix])
def test_lengths_of_a_tensor_do_not_become_part_of_a_file(make):
    layer = Attention(mask=make(ops.convert_to_tensor([1, 5], "int32")))
    with pytest.raises(ValueError, match=f"{make.__name__} cannot be saved"):
        layer.get_config()
    assert f"{make.__name__}(shape=(2,))" in repr(layer.mask)


@pytest.mark.full
def test_saved_file_gives_the_same_in_a_fresh_process(tmp_path):
    x = np.random.default_rng(0).normal(size=(BATCH, 13, 4)).astype("float32")
    inputs = keras.Input(batch_shape=x.shape, name="x")
    outputs = {
        name: Attention(mask=mask, implementation="reference")(inputs, inputs)
        for name, (mask, _) in NUMBERS.items()
    }
    model = keras.Model({"x": inputs}, outputs)
    check_file(model, {"x": x}, tmp_path, atol=1e-6)


# mask: its text
TEXTS = [
    (masks.Causal(), "Causal()"),
    (masks.SlidingWindow(2, 0), "SlidingWindow(left=2, right=0)"),
    (masks.SlidingWindow(None, 1, 4), "SlidingWindow(left=None, right=1, block_size=4)"),
    (masks.GlobalTokens([4, 1]), "GlobalTokens(positions=[4, 1])"),
    (masks.RandomBlocks(4, 2), "RandomBlocks(block_size=4, num_blocks=2)"),
    (masks.RandomBlocks(4, 2, seed=3), "RandomBlocks(block_size=4, num_blocks=2, seed=3)"),
    (masks.Prefix(3), "Prefix(length=3)"),
    (masks.Lengths([1, 2]), "Lengths(lengths=[1, 2])"),
    (masks.Keys(KEY_PADDING), "Keys(shape=(2, 6))"),
    (masks.Array(PAIRS), "Array(shape=(2, 3, 4, 6))"),
    (masks.Document(IDS), "Document(shape=(2, 6))"),
    (masks.BigBird(seed=1), "BigBird(seed=1)"),
    (masks.Causal() & masks.Prefix(3), "Causal() & Prefix(length=3)"),
    (masks.Causal() & (masks.Prefix(3) | ~A), "Causal() & (Prefix(length=3) | ~" + repr(A) + ")"),
    (~(masks.Causal() & masks.Causal()), "~(Causal() & Causal())"),
    (~~masks.Causal(), "~~Causal()"),
    (masks.Causal() & masks.Causal() & masks.Causal(), "Causal() & Causal() & Causal()"),
]


@pytest.mark.parametrize(("mask", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_text_reads_like_the_code(mask, text):
    assert repr(mask) == text


@pytest.mark.parametrize("name", NUMBERS)
def test_text_is_the_code(name):
    mask, _ = NUMBERS[name]
    again = eval(repr(mask), {**vars(masks)})
    np.testing.assert_array_equal(full(again), full(mask))
