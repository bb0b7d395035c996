"""Blocks that run step by step give the same outputs as a full call."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    Attention,
    BlockSelectionAttention,
    DifferentialAttention,
    ForgettingAttention,
    GatedDeltaAttention,
    GatedLinearAttention,
    KimiDeltaAttention,
    LatentAttention,
    LinearAttention,
    LocalAttention,
    MultiHeadAttention,
    PerformerAttention,
    RetentionAttention,
    TalkingHeadsAttention,
    TransformerBlock,
    masks,
)
from keras_attention._memory import Memory
from tests.attention import oracle
from tests.attention.blocks import BATCH, ENCODED, FORMS, LENGTH, decoder, encoder, random, some

POSITIONS = [None, "rotary", "alibi", "t5", "shaw", "transformer_xl", "disentangled"]
SPLITS = [[1] * LENGTH, [LENGTH], [3, 1, 1], [2, 3]]
X = random(BATCH, LENGTH, 8)
ENCODINGS, VISIBLE = random(BATCH, ENCODED, 6), some(BATCH, ENCODED)
VISIBLE[:, 0] = True


def encoder_steps(block, x, split, room, mask=None, **arguments):
    cache, outputs, start = block.start(len(x), room, mask), [], 0
    for length in split:
        part = x[:, start : start + length]
        output, cache, *weights = block.step(part, cache, start, **arguments)
        outputs.append((output, *weights))
        start += length
    return [
        np.concatenate([oracle.float64(x) for x in each], -2) for each in zip(*outputs, strict=True)
    ]


@pytest.mark.few(2)
@pytest.mark.pairwise
@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("form", FORMS)
def test_steps_of_an_encoder_block_equal_the_call(form, position, split):
    block = encoder(**form, position=position, mask="causal")
    expected = oracle.float64(block(X))
    for room in (LENGTH, LENGTH + 3):
        (found,) = encoder_steps(block, X, split, room)
        np.testing.assert_allclose(found, expected, atol=2e-5)


CAUSAL = {
    "one head": lambda: Attention("additive", mask="causal"),
    "several heads": lambda: MultiHeadAttention(2, 4, mask="causal", position="rotary"),
    "local": lambda: LocalAttention("monotonic", 2, mask="causal"),
    "two maps": lambda: DifferentialAttention(2, 4, mask="causal", position="rotary"),
    "forgetting": lambda: ForgettingAttention(2, 4),
    "talking heads": lambda: TalkingHeadsAttention(2, 4, mask="causal", position="rotary"),
    "block selection": lambda: BlockSelectionAttention(
        2, 4, block_size=2, num_blocks=2, causal=True
    ),
    "latent": lambda: LatentAttention(2, 4, latent_dim=6, rotary_dim=2, mask="causal"),
    "linear": lambda: LinearAttention(2, 4, causal=True),
    "performer": lambda: PerformerAttention(2, 4, causal=True),
    "gated delta": lambda: GatedDeltaAttention(2, 4),
    "retention": lambda: RetentionAttention(2, 4),
    "gated linear": lambda: GatedLinearAttention(2, 4),
    "Kimi delta": lambda: KimiDeltaAttention(2, 4),
}


@pytest.mark.few(4)
@pytest.mark.pairwise
@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CAUSAL)
def test_steps_of_a_block_around_any_causal_attention_equal_the_call(name, form, split):
    block = TransformerBlock(CAUSAL[name](), 12, **form)
    expected = oracle.float64(block(X))
    (found,) = encoder_steps(block, X, split, LENGTH + 1)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.few(2)
@pytest.mark.pairwise
@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("normalize", ["post", "pre", "sandwich"])
def test_steps_of_a_decoder_block_equal_the_call(normalize, position, split):
    block = decoder(normalize=normalize, position=position)
    expected = block(X, ENCODINGS, encoded_mask=VISIBLE, return_attention_scores=True)
    expected = [oracle.float64(each) for each in expected]
    cache, memory = block.start(ops.convert_to_tensor(ENCODINGS), LENGTH, VISIBLE)
    start = 0
    for length in split:
        rows = slice(start, start + length)
        x, cache, of_self, of_cross = block.step(
            X[:, rows], cache, memory, ops.convert_to_tensor(start), return_attention_scores=True
        )
        np.testing.assert_allclose(oracle.float64(x), expected[0][:, rows], atol=2e-5)
        np.testing.assert_allclose(oracle.float64(of_self), expected[1][:, :, rows], atol=2e-5)
        np.testing.assert_allclose(oracle.float64(of_cross), expected[2][:, :, rows], atol=2e-5)
        start += length


@pytest.mark.few(1)
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    "options", [{}, {"score": "random_synthesizer"}, {"use_bias": False}], ids=str
)
def test_rows_side_by_side_share_what_was_encoded(options):
    """Three rows that share a source give the same outputs as with one source each."""
    block, times = decoder(**options), 3
    x = random(BATCH * times, 2, 8)
    cache, memory = block.start(ops.convert_to_tensor(ENCODINGS), LENGTH, VISIBLE)
    cache = [ops.repeat(part, times, axis=0) for part in cache[:2]]
    own = [ops.repeat(ops.convert_to_tensor(part), times, axis=0) for part in memory]

    def step(x, memory):
        memory = Memory(*memory)
        x, _, *weights = block.step(
            x, Memory(*cache, None), memory, 1, return_attention_scores=True
        )
        return x, *weights

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        any_rows = tf.TensorSpec((None, 2, 8))
        sources = [tf.TensorSpec((None, *part.shape[1:]), part.dtype) for part in own]
        step = tf.function(step, [any_rows, sources])
    for found, expected in zip(step(x, list(memory)), step(x, own), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(oracle.float64(found), oracle.float64(expected), atol=1e-5)


def test_steps_go_through_a_prefix_at_once():
    block = encoder(mask=masks.Causal() | masks.Prefix(3))
    (found,) = encoder_steps(block, X, [3, *[1] * (LENGTH - 3)], LENGTH + 2)
    np.testing.assert_allclose(found, oracle.float64(block(X)), atol=2e-5)


class SameParity(masks.Mask):
    """A mask with nothing but `tile`, as users write them."""

    def tile(self, query_positions, key_positions):
        return ((query_positions[:, None] - key_positions[None, :]) % 2 == 0)[None, None]


@pytest.mark.parametrize(
    "mask",
    [
        None,
        masks.SlidingWindow(2, 1),
        masks.Causal() | masks.GlobalTokens(1),
        masks.Dilated(2, 2, dilation=2),
        masks.Document([[0] * LENGTH]),
        SameParity(),
    ],
)
def test_block_that_looks_ahead_has_no_steps(mask):
    with pytest.raises(ValueError, match="in EncoderBlock must be causal for steps"):
        encoder(mask=mask).start(BATCH, LENGTH)


def test_weights_of_a_step_are_those_of_the_call():
    block = encoder(mask="causal", position="rotary")
    _, expected = block(X, return_attention_scores=True)
    _, found = encoder_steps(block, X, [1] * LENGTH, LENGTH, return_attention_scores=True)
    np.testing.assert_allclose(found, oracle.float64(expected), atol=2e-5)


def test_padding_in_front_is_not_seen():
    block = encoder(mask="causal", position="rotary")
    padded = np.concatenate([random(BATCH, 2, 8), X], axis=1)
    visible = np.ones((BATCH, LENGTH + 2), bool)
    visible[:, :2] = False
    (found,) = encoder_steps(block, padded, [3, *[1] * (LENGTH - 1)], LENGTH + 2, visible)
    np.testing.assert_allclose(found[:, 2:], oracle.float64(block(X)), atol=2e-5)


TOKENS = np.array([[1, 2, 3, 4, 5], [0, 0, 6, 7, 8]])  # 0 is padding


def equal_for_tokens(blocks, caches, *encoded, memories=((), ())):
    """Compares steps through two blocks with their calls, for tokens with an implicit mask."""
    embed = keras.layers.Embedding(9, 8, mask_zero=True)
    expected, found = embed(TOKENS), []
    for block in blocks:
        expected = block(expected, *encoded)
    for start, end in ((0, 3), (3, 4), (4, 5)):
        x = embed(TOKENS[:, start:end])
        for place, (block, memory) in enumerate(zip(blocks, memories, strict=True)):
            x, caches[place] = block.step(x, caches[place], *memory, start)
        found.append(oracle.float64(x))
    found, is_token = np.concatenate(found, axis=1), TOKENS > 0
    np.testing.assert_allclose(found[is_token], oracle.float64(expected)[is_token], atol=1e-4)


@pytest.mark.few(2)
@pytest.mark.pairwise
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize("name", CAUSAL)
def test_steps_of_every_block_honour_implicit_masks(name, normalize):
    blocks = [TransformerBlock(CAUSAL[name](), 12, normalize) for _ in range(2)]
    for block in blocks:
        block.build((None, None, 8))
    equal_for_tokens(blocks, [block.start(BATCH, LENGTH) for block in blocks])


def test_steps_of_decoder_blocks_honour_implicit_masks():
    blocks = [decoder(), decoder()]
    caches, memories = zip(*(block.start(ENCODINGS, LENGTH) for block in blocks), strict=True)
    equal_for_tokens(blocks, list(caches), ENCODINGS, memories=[(each,) for each in memories])


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_steps_in_half_precision(dtype):
    block = encoder(mask="causal", dtype=dtype)
    (found,) = encoder_steps(block, X, [1] * LENGTH, LENGTH)
    np.testing.assert_allclose(found, oracle.float64(block(X)), atol=0.1)


def test_a_step_keeps_the_shapes_of_its_cache():
    """A compiled loop requires that a step keeps the shapes and dtypes of its cache."""
    block = encoder(mask="causal")
    cache = block.start(BATCH, LENGTH)
    _, after = block.step(X[:, :1], cache, 0)
    for old, new in zip(cache[:2], after[:2], strict=True):
        assert (old.shape, keras.backend.standardize_dtype(old.dtype)) == (
            new.shape,
            keras.backend.standardize_dtype(new.dtype),
        )


@pytest.mark.few(1)
@pytest.mark.parametrize(("start", "length"), [(4, 1), (np.int32(4), 1), (3, 2)])
def test_steps_beyond_the_end_are_refused(start, length):
    room = rf"start={start} for {length} new positions, in a cache of 4\. .*larger `max_length`"
    block = encoder(mask="causal")
    with pytest.raises(ValueError, match=room):
        block.step(X[:, :length], block.start(BATCH, 4), start)
    block = decoder()
    cache, memory = block.start(ENCODINGS, 4)
    with pytest.raises(ValueError, match=room):
        block.step(X[:, :length], cache, memory, start)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_steps_of_arrays(dtype):
    """Torch does not convert NumPy arrays on its own."""
    block, x = encoder(mask="causal"), X.astype(dtype)
    (found,) = encoder_steps(block, x, [3, 2], LENGTH)
    np.testing.assert_allclose(found, oracle.float64(block(x)), atol=2e-5)
    block, encodings = decoder(), ENCODINGS.astype(dtype)
    cache, memory = block.start(encodings, LENGTH)
    found, _ = block.step(x, cache, memory, 0)
    np.testing.assert_allclose(
        oracle.float64(found), oracle.float64(block(x, encodings)), atol=2e-5
    )
