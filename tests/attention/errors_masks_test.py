"""Users' mistakes with masks, and what the messages say."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionPooling,
    AttentionRNN,
    MultiHeadAttention,
    NadarayaWatson,
    masks,
)
from keras_attention.convolution import ConvolutionModule
from keras_attention.transformer import DecoderBlock, EncoderBlock
from tests.attention.mistakes import QUERY, VALUE, attend, check_message, gru, ones

ADDED = np.array([[0.0, 0.0, -1e9, -1e9, -1e9]] * 2)


class Flat(masks.Mask):
    """A custom mask without the batch and head axes."""

    def tile(self, query_positions, key_positions):
        return key_positions[None, :] <= query_positions[:, None]


class Added(masks.Mask):
    """A custom mask of numbers that are added to the scores."""

    def tile(self, query_positions, key_positions):
        is_later = key_positions[None, :] > query_positions[:, None]
        return keras.ops.where(is_later, -1e9, 0.0)[None, None]


# what the user did: (how, what the message must say)
MISTAKES = {
    "unknown mask": (lambda: Attention(mask="casual"), ["mask 'casual'", "Did you mean 'causal'?"]),
    "mask that is an array": (
        lambda: masks.Causal() & np.ones((3, 3), bool),
        ["`mask` must be", "a subclass of Mask", "ndarray. Masks with", "masks.Array(array)"],
    ),
    "array as the mask of a layer": (
        lambda: Attention(mask=ones(3, 3)),
        ["`mask` must be", "masks.Array(array)", "attention_mask=array"],
    ),
    "name of a mask with arguments": (
        lambda: Attention(mask="sliding_window"),
        ["mask 'sliding_window'", "objects, such as masks.SlidingWindow(left, right)"],
    ),
    "mask that is a class": (
        lambda: Attention(mask=masks.Causal),
        ["`mask` must be an object, not a class", "Call it", "Causal()"],
    ),
    **{
        f"rule as the mask of a call, {rule!r}": (
            attend(layer, attention_mask=rule),
            ["`attention_mask` must be an array", f"{rule!r}, a rule", "mask=masks.Causal()"],
        )
        for layer, rule in ((MultiHeadAttention(2, 3), masks.Causal()), (Attention(), "causal"))
    },
    "rule as the padding of a block": (
        lambda: EncoderBlock(2, 8)(QUERY, mask="causal"),
        ["`mask` must be an array", "'causal', a rule", "Make the layer with it"],
    ),
    **{
        f"{name} that is added to scores": (
            attend(MultiHeadAttention(2, 3), **{name: mask}),
            [f"`{name}` must be True or 1", f"lowest value {np.min(mask)}", "pass mask == 0"],
        )
        for name, mask in {
            "attention_mask": np.where(np.tri(3, 5, dtype=bool), 0.0, -1e9),
            "value_mask": np.full((2, 5), np.nan),
            "key_mask": np.full((2, 5), -10_000),
            "query_mask": [[0.0, 0.0, -1e9]] * 2,
        }.items()
    },
    **{
        f"padding of {name} that is added to scores": (
            make,
            [f"`{argument}` must be True or 1", "lowest value -1000000000.0", "pass mask == 0"],
        )
        for name, argument, make in (
            ("a block", "mask", lambda: EncoderBlock(2, 8)(QUERY, mask=ADDED[:, :3])),
            ("a convolution", "mask", lambda: ConvolutionModule(3)(QUERY, mask=ADDED[:, :3])),
            ("a pooled sequence", "mask", lambda: AttentionPooling()(VALUE, ADDED)),
            (
                "pairs of a block, without its name,",
                "attention_mask",
                lambda: EncoderBlock(2, 8)(QUERY, None, ADDED[:, :, None]),
            ),
            (
                "what is encoded",
                "encoded_mask",
                lambda: DecoderBlock(2, 8)(QUERY, VALUE, encoded_mask=ADDED),
            ),
            (
                "points",
                "key_mask",
                lambda: NadarayaWatson()(QUERY, VALUE, VALUE, key_mask=ADDED),
            ),
            (
                "a recurrent decoder",
                "memory_mask",
                lambda: AttentionRNN(AttentionCell(gru()))(QUERY, VALUE, memory_mask=ADDED),
            ),
        )
    },
    "array of a mask that is added to scores": (
        lambda: masks.Array(np.array([[0.0, -np.inf]])),
        ["`visible` must be True or 1", "lowest value -inf", "pass mask == 0"],
    ),
    **{
        f"mask of a larger batch, {implementation}": (
            attend(Attention(mask=masks.Lengths([1, 2, 3]), implementation=implementation)),
            ["`tile` of the mask Lengths(", "batch 2 and heads 1", "shape (3, 1, 1, 5)"],
        )
        for implementation in ("reference", "chunked", "fused")
    },
    "mask of a batch of 3 for a batch of 1": (
        attend(Attention(mask=masks.Lengths([1, 2, 3])), QUERY[:1], VALUE[:1]),
        ["`tile` of the mask Lengths", "batch 1", "shape (3, 1, 1, 5)", "with the call"],
    ),
    "mask of heads without heads": (
        attend(Attention(mask=masks.Array(ones(1, 2, 3, 5)))),
        ["`tile` of the mask Array(shape=(1, 2, 3, 5))", "heads 1", "may be 1"],
    ),
    "mask of one's own of rank 2": (
        attend(Attention(mask=Flat())),
        ["`tile` of the mask Flat()", "(batch, heads, queries, keys)", "shape (3, 5)"],
    ),
    "window without an end": (
        lambda: masks.SlidingWindow(None, None),
        ["SlidingWindow needs a limit", "left=None, right=None", "Omit the mask"],
    ),
    "negative window": (
        lambda: masks.SlidingWindow(-1, 0),
        ["`left` of SlidingWindow", "integer of at least 0", "left=-1", "None means no limit"],
    ),
    "window of a fraction": (
        lambda: masks.SlidingWindow(1, 2.5),
        ["`right` of SlidingWindow must be an integer", "right=2.5"],
    ),
    "window of a boolean": (
        lambda: masks.SlidingWindow(True, 0),
        ["`left` of SlidingWindow must be an integer", "left=True"],
    ),
    "window of empty blocks": (
        lambda: masks.SlidingWindow(1, 0, block_size=0),
        ["`block_size` of SlidingWindow", "at least 1", "block_size=0"],
    ),
    "dilation of 0": (
        lambda: masks.Dilated(1, 1, 0),
        ["`dilation` of Dilated", "at least 1", "dilation=0", "1 leaves no gaps"],
    ),
    "no global tokens": (
        lambda: masks.GlobalTokens(0),
        ["`positions` of GlobalTokens", "at least 1", "positions=0", "list of positions"],
    ),
    "empty list of global tokens": (
        lambda: masks.GlobalTokens([]),
        ["`positions` of GlobalTokens", "at least one token", "omit the mask"],
    ),
    "global token from the end": (
        lambda: masks.GlobalTokens([0, -1]),
        ["`positions` of GlobalTokens", "positions=-1", "count from the start"],
    ),
    "no random blocks": (
        lambda: masks.RandomBlocks(4, 0),
        ["`num_blocks` of RandomBlocks", "num_blocks=0", "omit the mask"],
    ),
    "random seed that is no integer": (
        lambda: masks.RandomBlocks(4, 1, seed=None),
        ["`seed` of RandomBlocks must be an integer", "seed=None"],
    ),
    "even window of random blocks": (
        lambda: masks.RandomBlocks(4, 1, window=2),
        ["`window` of RandomBlocks must be odd", "window=2", "in the middle"],
    ),
    "prefix of a fraction": (
        lambda: masks.Prefix(1.5),
        ["`length` of Prefix", "an integer or integers (batch,)", "float64", "keras.ops.cast"],
    ),
    "negative prefix": (
        lambda: masks.Prefix([2, -1]),
        ["`length` of Prefix must not be negative", "length=[2, -1]", "no keys at all"],
    ),
    "one length for a batch": (
        lambda: masks.Lengths(3),
        ["`lengths` of Lengths must be integers (batch,)", "shape ()"],
    ),
    "padding as lengths": (
        lambda: masks.Lengths(ones(2, 5)),
        ["`lengths` of Lengths", "dtype bool, shape (2, 5)"],
    ),
    "custom mask that is added to scores": (
        lambda: Attention(mask=Added())(QUERY, VALUE),
        ["`tile` of the mask Added() must return booleans", "dtype float32", "mask == 0"],
    ),
    "documents without a batch": (
        lambda: masks.Document([0, 0, 1]),
        [
            "`ids` of Document must be integers (batch, key_length)",
            "shape (3,)",
            "keras.ops.reshape",
        ],
    ),
    "documents of floats": (
        lambda: masks.Document(np.zeros((2, 3), "float32")),
        ["`ids` of Document", "float32", "keras.ops.cast(ids, 'int32')"],
    ),
    "queries of rank 1": (
        lambda: masks.Queries(ones(3), 3),
        ["`visible` must have 2 axes", "shape (3,)"],
    ),
    "odd window of Longformer": (
        lambda: masks.Longformer(window=3),
        ["`window` of Longformer must be even", "window=3", "SlidingWindow(left, right)"],
    ),
    "even window of BigBird": (
        lambda: masks.BigBird(window=2),
        ["`window` of BigBird must be odd", "window=2"],
    ),
    "negative number of random blocks": (
        lambda: masks.BigBird(num_random=-1),
        ["`num_random` of BigBird", "at least 0", "num_random=-1", "0 leaves them out"],
    ),
    "window of no rows": (
        lambda: masks.GridWindows((8, 8), window=(0, 4)),
        ["`window` of GridWindows must be an integer of at least 1", "window=(0, 4)"],
    ),
    "grid of a fraction": (
        lambda: masks.GridWindows(7.5, window=2),
        ["`grid` of GridWindows must be an integer", "for rows and columns", "grid=7.5"],
    ),
    "shift by a whole window": (
        lambda: masks.GridWindows((8, 8), window=4, shift=4),
        ["`shift` of GridWindows must be smaller than `window`", "shift=4, window=4", "half"],
    ),
    "negative number of tokens in front of a grid": (
        lambda: masks.GridWindows((8, 8), window=4, num_prefix_tokens=-1),
        ["`num_prefix_tokens` of GridWindows", "at least 0", "0 means none"],
    ),
    "neighborhood without a middle": (
        lambda: masks.Neighborhood((8, 8), window=(3, 4)),
        ["`window` of Neighborhood must be odd", "window=(3, 4)", "in the middle"],
    ),
    "neighborhood larger than the grid": (
        lambda: masks.Neighborhood((8, 8), window=3, dilation=3),
        ["`grid` of Neighborhood", "window · dilation", "grid=(8, 8), window=3, dilation=3"],
    ),
    "conjunction of nothing": (
        lambda: masks.And(),
        ["And needs the masks", "Received: none", "first & second"],
    ),
    "mask of data in a file": (
        lambda: Attention(mask=masks.Causal() & masks.Keys(ones(2, 5))).get_config(),
        ["mask Keys cannot be saved", "`visible`", "value_mask", "attention_mask=mask("],
    ),
    "documents in a file": (
        lambda: keras.saving.serialize_keras_object(masks.Document([[0, 1]])),
        ["mask Document cannot be saved", "`ids`", "attention_mask=mask("],
    ),
    "picture of nothing": (
        lambda: masks.Causal().plot(0),
        ["`query_length` of the plot of Causal", "positive integer", "query_length=0"],
    ),
    "mask without a rule": (
        lambda: masks.Mask()(2, 3),
        ["Mask must implement `tile`"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    check_message(*MISTAKES[mistake])
