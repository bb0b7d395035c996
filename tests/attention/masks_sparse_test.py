"""Random blocks, Longformer and BigBird: number and choice of blocks, fixed draws."""

import numpy as np
import pytest
from keras import ops

from keras_attention import masks

GOLDEN = {
    "left": [
        [],
        [0],
        [0, 1],
        [0, 2],
        [1, 2],
        [0, 4],
        [1, 4],
        [2, 5],
        [2, 6],
        [1, 7],
        [0, 9],
        [3, 9],
    ],
    "both ways": [
        [5, 10],
        [0, 6],
        [0, 3],
        [1, 9],
        [0, 10],
        [3, 8],
        [4, 9],
        [5, 9],
        [1, 6],
        [0, 5],
        [2, 6],
        [0, 9],
    ],
}


def blocks(mask, length, size=1):
    """Which key blocks each query block sees."""
    array = ops.convert_to_numpy(mask(length, length))[0, 0]
    whole = array.reshape(length // size, size, length // size, size)
    assert (whole.any(axis=(1, 3)) == whole.all(axis=(1, 3))).all()
    return whole.any(axis=(1, 3))


def drawn(mask, length, size=1):
    return [np.flatnonzero(row).tolist() for row in blocks(mask, length, size)]


def test_draws_are_the_same_for_ever():
    """Saved models rely on these numbers, on every backend."""
    assert drawn(masks.RandomBlocks(1, 2, seed=0), 12) == GOLDEN["left"]
    assert drawn(masks.RandomBlocks(1, 2, seed=1, length=12), 12) == GOLDEN["both ways"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("num_blocks", [1, 2, 3, 5])
def test_each_block_draws_as_many_different_ones_as_there_are(num_blocks, seed):
    seen = blocks(masks.RandomBlocks(2, num_blocks, seed), 80, 2)
    assert seen.sum(axis=1).tolist() == [min(block, num_blocks) for block in range(40)]
    assert not np.triu(seen).any()  # only to the left, and never its own block


@pytest.mark.parametrize("num_blocks", [1, 3, 5, 30])
def test_with_a_length_each_block_draws_on_both_sides(num_blocks):
    seen = blocks(masks.RandomBlocks(2, num_blocks, length=39), 40, 2)
    assert seen.sum(axis=1).tolist() == [min(num_blocks, 19)] * 20
    assert np.triu(seen).any()
    assert np.tril(seen).any()
    assert not np.diagonal(seen).any()


@pytest.mark.parametrize("length", [None, 40])
def test_nothing_is_drawn_that_other_masks_show(length):
    seen = blocks(masks.RandomBlocks(1, 2, 0, window=5, num_global=3, length=length), 40)
    assert not seen[:, :3].any()
    assert not np.triu(np.tril(seen, 2), -2).any()
    assert (seen[7:].sum(axis=1) == 2).all()


@pytest.mark.parametrize("length", [None, 400])
def test_draws_are_spread_evenly(length):
    seen = blocks(masks.RandomBlocks(1, 4, length=length), 400)
    rows = seen[200:] if length is None else seen
    per_fifth = rows[:, :200].sum(axis=0).reshape(5, 40).sum(axis=1)
    assert per_fifth.min() > 0.7 * per_fifth.mean()
    assert per_fifth.max() < 1.3 * per_fifth.mean()
    assert rows[:, :200].sum(axis=0).max() < 12


def test_another_seed_draws_others():
    first, second = (blocks(masks.RandomBlocks(1, 3, seed), 100) for seed in (0, 1))
    assert (first & second).sum() < 0.3 * first.sum()


def test_far_positions_do_not_overflow():
    mask = masks.RandomBlocks(64, 3)
    far = np.arange(2**22, 2**22 + 3, dtype="int32")
    for drawn_block, exists in mask._draws(far // 64):
        assert exists.all()
        assert ((drawn_block >= 0) & (drawn_block < 2**16)).all()
    keys = np.arange(0, 2**16, 64, dtype="int32")
    assert mask.may_see((far[:1, None], far[-1:, None]), (keys[None], keys[None] + 63)).sum() <= 3


@pytest.mark.parametrize("num_global", [0, 1, 2])
@pytest.mark.parametrize("window", [1, 3, 5])
def test_big_bird_sees_its_window_its_global_and_its_random_blocks(window, num_global):
    mask = masks.BigBird(2, window, num_global, num_random=2, length=60)
    seen = blocks(mask, 60, 2)
    inner = seen[num_global + window : -window]
    assert (inner.sum(axis=1) == window + num_global + 2).all()
    assert seen[:num_global].all()
    assert seen[:, :num_global].all()


def test_longformer_sees_half_its_window_on_each_side():
    seen = blocks(masks.Longformer(6, 2), 20)
    assert (seen[5:-3].sum(axis=1) == 6 + 1 + 2).all()
    assert seen[:2].all()
    assert seen[:, :2].all()


def test_both_go_with_causal():
    for mask in (masks.Longformer(4, 1), masks.BigBird(1, 3, 1, 2)):
        causal = masks.Causal() & mask
        assert not np.triu(blocks(causal, 20), 1).any()
        np.testing.assert_array_equal(blocks(causal, 20), np.tril(blocks(mask, 20)))


def test_bigbird_with_a_global_block_at_each_end():
    """As in the paper's base model and in Hugging Face Transformers."""
    options = {"block_size": 2, "window": 3, "num_random": 2, "length": 39}
    seen = blocks(masks.BigBird(num_global=1, num_last=1, **options), 40, 2)
    for end in (0, -1):
        assert seen[end].all()
        assert seen[:, end].all()
    inside = seen[1:-1, 1:-1]
    near = np.triu(np.tril(np.ones_like(inside), 1), -1)
    assert inside[near].all()
    drawn_only = inside & ~near
    assert drawn_only.sum(axis=1).max() == 2
    assert drawn_only.sum() >= 2 * len(inside) - 4  # in the ring, a neighbour may be drawn
    assert drawn_only.any(axis=0).sum() > len(inside) // 2


def test_bigbird_needs_the_length_for_its_end():
    with pytest.raises(ValueError, match="`num_last` of BigBird needs `length`"):
        masks.BigBird(num_last=1)
