"""Users' mistakes: each message names the source, the input, what was expected, and a fix."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionRNN,
    MultiHeadAttention,
    NadarayaWatson,
    masks,
    normalizers,
    positions,
    scores,
)
from keras_attention._keras import set_keras_mask
from keras_attention.conformer import ConformerBlock
from keras_attention.convolution import ConvolutionModule
from keras_attention.feed_forward import FeedForward
from keras_attention.linformer import LinformerAttention
from keras_attention.local import LocalAttention
from keras_attention.performer import PerformerAttention
from keras_attention.reformer import ReformerAttention
from keras_attention.transformer import DecoderBlock, EncoderBlock

QUERY, VALUE = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
NARROW = np.ones((2, 5, 6), "float32")
ADDED = np.array([[0.0, 0.0, -1e9, -1e9, -1e9]] * 2)


class Unsummed(scores.Score):
    def pairwise(self, query, key):
        return query[..., :, None, :] - key[..., None, :, :]


def gru():
    return keras.layers.GRUCell(8)


def attend(layer=None, query=QUERY, value=VALUE, key=None, **arguments):
    return lambda: (layer or Attention())(query, value, key, **arguments)


def attend_again(query, value, layer=None):
    """Calls a layer that has been built with valid inputs."""
    layer = layer or Attention()
    layer(QUERY, VALUE)
    return layer(query, value)


def share_position(position):
    for _ in range(2):
        MultiHeadAttention(2, 4, position=position)(QUERY, QUERY)


def share(**part):
    """Passes one object to layers with different numbers of heads."""
    Attention(**part)(QUERY, VALUE)
    return MultiHeadAttention(4, 3, **part)(QUERY, VALUE)


def prepared_cell():
    cell = AttentionCell(gru())
    cell.build((2, 4), (2, 5, 4))
    return cell


def of_keras(x, mask):
    """Returns a tensor with a Keras mask."""
    x = keras.ops.copy(x)
    set_keras_mask(x, keras.ops.convert_to_tensor(mask))
    return x


class Flat(masks.Mask):
    """A custom mask without the batch and head axes."""

    def tile(self, query_positions, key_positions):
        return key_positions[None, :] <= query_positions[:, None]


class Added(masks.Mask):
    """A custom mask of numbers that are added to the scores."""

    def tile(self, query_positions, key_positions):
        is_later = key_positions[None, :] > query_positions[:, None]
        return keras.ops.where(is_later, -1e9, 0.0)[None, None]


class WithoutKeepdims(normalizers.Normalizer):
    """A custom normalizer whose weights would still broadcast with the values."""

    def __call__(self, scores, visible=None, training=None):
        return keras.ops.max(scores, axis=-1)


def causal_performer_step(start):
    layer = PerformerAttention(2, 3, causal=True)
    layer(QUERY, VALUE)
    return layer.attend(QUERY, layer.prepare(VALUE), start=start)


def ones(*shape):
    return np.ones(shape, bool)


def regress(query=QUERY, key=VALUE, value=VALUE, **arguments):
    return lambda: NadarayaWatson()(query, key, value, **arguments)


# what the user did: (how, what the message must say)
MISTAKES = {
    "unknown score": (
        lambda: Attention("aditive"),
        ["score 'aditive'", "Did you mean 'additive'", "scaled_dot"],
    ),
    "unknown score without a near one": (
        lambda: Attention("xyz"),
        ["score 'xyz'", "Known: additive, boxcar"],
    ),
    "score of a wrong type": (
        lambda: Attention(3),
        ["`score` must be", "additive", "a subclass of Score", "Received: 3 of type int"],
    ),
    "score that is a class": (
        lambda: scores.get(scores.Dot),
        ["`score` must be an object, not a class", "Call it", "Dot()"],
    ),
    "score that is another layer": (
        lambda: Attention(keras.layers.Dense(3)),
        ["`score` must be", "Dense"],
    ),
    "unknown normalizer": (
        lambda: Attention(normalizer="softmx"),
        ["normalizer 'softmx'", "Did you mean 'softmax' or 'softmax_one'?"],
    ),
    "normalizer of a wrong type": (
        lambda: normalizers.get(None),
        ["`normalizer` must be", "softmax", "None"],
    ),
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
            [f"`{name}` must be True or 1", f"lowest value {mask.min()}", "pass mask == 0"],
        )
        for name, mask in {
            "attention_mask": np.where(np.tri(3, 5, dtype=bool), 0.0, -1e9),
            "value_mask": np.full((2, 5), np.nan),
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
    "no dropout as None": (
        lambda: Attention(dropout=None),
        ["`dropout` of Attention", "at least 0 and below 1", "dropout=None", "0 means none"],
    ),
    "dropout as a text": (
        lambda: EncoderBlock(2, 8, hidden_dropout="0.1"),
        ["`hidden_dropout` of EncoderBlock", "hidden_dropout='0.1'"],
    ),
    "no biases as None": (
        lambda: MultiHeadAttention(2, 3, use_bias=None),
        ["`use_bias` of MultiHeadAttention must be True, False", "use_bias=None"],
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
    "custom normalizer without keepdims": (
        lambda: MultiHeadAttention(2, 4, normalizer=WithoutKeepdims())(QUERY, QUERY),
        ["WithoutKeepdims must return weights", "(2, 2, 3, 3)", "shape (2, 2, 3)", "keepdims=True"],
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
    "weights that are never formed": (
        attend(Attention(implementation="chunked"), return_attention_scores=True),
        ["implementation='chunked'", "return_attention_scores=True", "implementation='reference'"],
    ),
    "normalizer that cannot be summed up by tiles": (
        attend(Attention(implementation="chunked", normalizer="sparsemax")),
        [
            "implementation='chunked'",
            "Sparsemax: it supports only Softmax, SoftmaxOne, Sum",
            "'auto'",
        ],
    ),
    "kernel for another score": (
        attend(Attention("general", implementation="fused")),
        ["implementation='fused'", "score General: it supports only ScaledDot"],
    ),
    "kernel with a bias": (
        attend(Attention(position="alibi", implementation="fused")),
        ["implementation='fused'", "a position that adds to the scores, a soft cap or dropout"],
    ),
    "endless soft cap": (
        lambda: MultiHeadAttention(2, 3, soft_cap=float("inf")),
        ["`soft_cap` of Attention must be a finite number", "None for no cap", "soft_cap=inf"],
    ),
    "soft cap of 0": (lambda: Attention(soft_cap=0.0), ["`soft_cap`", "above 0", "soft_cap=0.0"]),
    "heads that cannot be grouped": (
        lambda: MultiHeadAttention(4, 8, num_key_value_heads=3),
        ["`num_key_value_heads`", "must divide num_heads=4", "num_key_value_heads=3"],
    ),
    "unknown implementation": (
        lambda: Attention(implementation="flash"),
        ["`implementation` must be one of 'auto', 'reference'", "Received: 'flash'"],
    ),
    "dropout of 1": (
        lambda: Attention(dropout=1.0),
        ["`dropout` of Attention", "at least 0 and below 1", "dropout=1.0"],
    ),
    "negative dropout": (
        lambda: MultiHeadAttention(2, 3, dropout=-0.1),
        ["`dropout` of MultiHeadAttention", "dropout=-0.1"],
    ),
    "number of heads where Keras has dropout": (
        lambda: MultiHeadAttention(4, 3, None, 2),
        ["`dropout` of MultiHeadAttention must be at least 0 and below 1", "dropout=2"],
    ),
    "no heads": (
        lambda: MultiHeadAttention(0, 3),
        ["`num_heads` of MultiHeadAttention must be a positive integer", "num_heads=0"],
    ),
    "key_dim that is no integer": (
        lambda: MultiHeadAttention(2, 3.5),
        ["`key_dim` of MultiHeadAttention must be a positive integer", "key_dim=3.5"],
    ),
    "negative value_dim": (
        lambda: MultiHeadAttention(2, 3, value_dim=-1),
        ["`value_dim` of MultiHeadAttention", "value_dim=-1"],
    ),
    "output_dim of 0": (
        lambda: MultiHeadAttention(2, 3, output_dim=0),
        ["`output_dim` of MultiHeadAttention", "output_dim=0"],
    ),
    "units of 0": (
        lambda: scores.Additive(units=0),
        ["`units` of the score Additive must be a positive integer or None", "units=0"],
    ),
    "units that are no number": (
        lambda: scores.Additive(units="many"),
        ["`units` of the score Additive must be a positive integer or None", "units='many'"],
    ),
    "sharpness of 0": (
        lambda: scores.Cosine(sharpness=0),
        ["`sharpness` of the score Cosine must be a number above 0", "sharpness=0", "learned"],
    ),
    "sharpness that is a switch": (
        lambda: scores.Cosine(True),
        ["`sharpness` of the score Cosine", "sharpness=True", "learned_sharpness=True"],
    ),
    "negative width": (
        lambda: scores.Gaussian(width=-1.0),
        ["`width` of the score Gaussian must be a number above 0", "width=-1.0"],
    ),
    "width of infinity": (
        lambda: scores.Triangular(float("inf")),
        ["`width` of the score Triangular must be a number above 0", "width=inf"],
    ),
    "width that is to be learned": (
        lambda: scores.Epanechnikov("learned"),
        ["`width` of the score Epanechnikov", "width='learned'", "learned_width=True"],
    ),
    "learned width of a flat kernel": (
        lambda: scores.Boxcar(learned_width=True),
        ["`learned_width` of the score Boxcar", "no gradient", "'epanechnikov'"],
    ),
    "kernel without a formula": (
        lambda: scores.Kernel()(QUERY, VALUE),
        ["Kernel must implement `of_squared(u_squared)`"],
    ),
    "sizes that cosine cannot compare": (
        attend(Attention("cosine"), value=NARROW),
        ["score Cosine", "same size", "query shape (2, 3, 4), key shape (2, 5, 6)"],
    ),
    "sizes that a distance cannot compare": (
        attend(Attention("gaussian"), value=NARROW),
        ["score Gaussian", "same size", "key shape (2, 5, 6)", "keras.layers.Dense"],
    ),
    "no positions": (
        lambda: scores.Location(max_length=0),
        ["`max_length` of the score Location must be a positive integer", "max_length=0"],
    ),
    "more keys than positions": (
        attend(Attention(scores.Location(max_length=4))),
        ["score Location", "4 positions", "Received: 5 keys", "Location(max_length=5) or more"],
    ),
    "more keys than positions of each head": (
        attend(MultiHeadAttention(2, 3, score=scores.DenseSynthesizer(max_length=2))),
        ["score DenseSynthesizer", "2 positions", "Received: 5 keys", "max_length=5"],
    ),
    "more queries than rows": (
        attend(Attention(scores.RandomSynthesizer(max_length=5)), np.ones((2, 6, 4))),
        ["score RandomSynthesizer", "5 positions", "6 queries", "shorten the queries"],
    ),
    "units of a synthesizer that are no integer": (
        lambda: scores.DenseSynthesizer(units=1.5),
        ["`units` of the score DenseSynthesizer must be a positive integer or None", "units=1.5"],
    ),
    "rank of 0": (
        lambda: scores.RandomSynthesizer(rank=0),
        ["`rank` of the score RandomSynthesizer must be a positive integer or None", "rank=0"],
    ),
    "function that is none": (
        lambda: scores.Function("dot"),
        ["`function` of the score Function", "Received: 'dot' of type str"],
    ),
    "function that is a layer": (
        lambda: scores.Function(keras.layers.Dense(3)),
        ["`function` of the score Function", "type Dense", "keras_attention.scores.Score"],
    ),
    "function of another shape": (
        attend(Attention(lambda query, key: query)),
        ["score function '<lambda>'", "(2, 3, 5)", "shape (2, 3, 4)", "Sum over features"],
    ),
    "function that returns nothing": (
        attend(Attention(lambda query, key: None)),
        ["score function '<lambda>'", "no tensor", "queries (2, 3, 4)"],
    ),
    "score of another shape": (
        attend(MultiHeadAttention(2, 4, score=Unsummed())),
        ["score Unsummed", "(2, 2, 3, 5)", "shape (2, 2, 3, 5, 4)", "Sum over features"],
    ),
    "score of another shape by itself": (
        lambda: Unsummed()(QUERY, VALUE),
        ["score Unsummed", "(2, 3, 5)", "shape (2, 3, 5, 4)"],
    ),
    "embeddings of positions inside the heads": (
        lambda: Attention(position="sinusoidal"),
        ["Unknown position 'sinusoidal'", "layers for the embeddings", "SinusoidalPosition()(x)"],
    ),
    "lambda in a config": (
        lambda: Attention(lambda query, key: query).get_config(),
        ["'<lambda>' cannot be saved", "Define it with `def`", "register_keras_serializable"],
    ),
    "seed of a normalizer that is no integer": (
        lambda: normalizers.Hard(stochastic=True, seed="x"),
        ["`seed` of the normalizer Hard must be an integer or None", "seed='x'"],
    ),
    "draw without a seed": (
        lambda: normalizers.Hard().draw(QUERY),
        ["normalizer Hard has no seed", "Hard(stochastic=True)", "pass seed="],
    ),
    "normalizer without a call": (
        lambda: normalizers.Normalizer()(QUERY),
        ["Normalizer must implement `__call__`"],
    ),
    "unknown kernel": (
        lambda: NadarayaWatson("gausian"),
        ["kernel 'gausian'", "Did you mean 'gaussian'?", "Known: boxcar, epanechnikov"],
    ),
    "width beside a kernel that has its own": (
        lambda: NadarayaWatson(scores.Boxcar(2.0), width=3.0),
        ["`width` and `learned_width` of NadarayaWatson", "width=3.0", "Boxcar(width=...)"],
    ),
    "kernel regression with another number of values": (
        regress(value=VALUE[:, :4]),
        ["needs one value for each key", "value (2, 4, 4), key (2, 5, 4)"],
    ),
    "kernel regression on points of another size": (
        regress(key=NARROW),
        ["score Gaussian", "same size", "query shape (2, 3, 4), key shape (2, 5, 6)"],
    ),
    "kernel regression on plain numbers": (
        regress(QUERY[0, :, 0], VALUE[0, :, 0], VALUE[0, :, 0]),
        ["NadarayaWatson needs", "query_x (3,), key_x (5,)", "x[None, :, None]"],
    ),
    "sizes that dot cannot compare": (
        attend(Attention("dot"), value=NARROW),
        ["score Dot", "same size", "query shape (2, 3, 4), key shape (2, 5, 6)", "'general'"],
    ),
    "sizes that scaled_dot cannot compare": (
        attend(Attention("scaled_dot"), key=NARROW),
        ["score ScaledDot", "same size", "(2, 5, 6)", "keras.layers.Dense"],
    ),
    "query of rank 2": (
        attend(query=QUERY[0]),
        ["Attention needs", "(batch, length, size)", "query (3, 4)", "x[:, None, :]"],
    ),
    "value of rank 4": (
        attend(MultiHeadAttention(2, 3), value=VALUE[:, None]),
        ["MultiHeadAttention needs", "value (2, 1, 5, 4)", "Reshape"],
    ),
    "query of rank 2, once the layer is built": (
        lambda: attend_again(QUERY[0], VALUE[0]),
        ["Attention needs", "(batch, length, size)", "query (3, 4)"],
    ),
    "a list, as of keras.layers.Attention": (
        lambda: MultiHeadAttention(2, 3)([QUERY, VALUE]),
        ["separate arguments of MultiHeadAttention", "a list of 2", "layer(*inputs)"],
    ),
    "a list of one": (
        lambda: Attention()([QUERY]),
        ["Attention takes `inputs`", "a list of two or three", "a list of 1"],
    ),
    "a mask at the end of the list": (
        lambda: Attention()([QUERY, VALUE, VALUE, ones(2, 3)]),
        ["Attention takes `inputs`", "Received: a list of 4", "layer(query, value, key, "],
    ),
    "one mask in place of a list": (
        lambda: Attention()([QUERY, VALUE], mask=ones(2, 3)),
        ["Attention takes `mask`", "a list of two or three", "Received: ndarray"],
    ),
    "a list of four masks": (
        lambda: Attention()([QUERY, VALUE], mask=[None, None, None, ones(3, 5)]),
        ["Attention takes `mask`", "Received: a list of 4", "attention_mask=mask"],
    ),
    "another number of keys than of values": (
        attend(key=VALUE[:, :4]),
        ["Attention needs one value for each key", "value (2, 5, 4), key (2, 4, 4)", "equal"],
    ),
    "another batch of queries than of keys": (
        attend(query=QUERY[:1]),
        ["Attention needs one memory for each query", "query (1, 3, 4)", "keras.ops.repeat"],
    ),
    "padding mask of rank 3": (
        attend(key_mask=ones(2, 1, 5)),
        ["`key_mask` must have 2 axes", "(2, 1, 5)", "attention_mask"],
    ),
    "padding as an attention mask": (
        attend(attention_mask=ones(5)),
        ["`attention_mask` must have 2 or 3 or 4 axes", "(5,)", "value_mask or key_mask"],
    ),
    "query mask of the keys' length": (
        attend(query_mask=ones(2, 5)),
        ["`query_mask` of Attention", "(batch, length) = (2, 3)", "shape (2, 5)"],
    ),
    "value mask of length 1": (
        attend(value_mask=ones(2, 1)),
        ["`value_mask` of Attention", "(2, 5)", "shape (2, 1)"],
    ),
    "key mask of another batch": (
        attend(MultiHeadAttention(2, 3), key_mask=ones(1, 5)),
        ["`key_mask` of MultiHeadAttention", "(2, 5)", "shape (1, 5)"],
    ),
    "mask of Keras of rank 4": (
        attend(MultiHeadAttention(2, 3), query=of_keras(QUERY, ones(2, 1, 1, 3))),
        [
            "The mask that Keras attached to a tensor, the `query_mask` of MultiHeadAttention",
            "(batch, length) = (2, 3)",
            "shape (2, 1, 1, 3)",
            "keras.ops.copy(x)",
        ],
    ),
    "mask of Keras of length 1": (
        attend(value=of_keras(VALUE, ones(2, 1))),
        ["the `value_mask` of Attention", "(2, 5)", "shape (2, 1)"],
    ),
    "mask of Keras of rank 3 on what is encoded": (
        lambda: DecoderBlock(2, 8)(QUERY, of_keras(VALUE, ones(2, 5, 4))),
        ["the `encoded_mask` of DecoderBlock", "(2, 5)", "shape (2, 5, 4)"],
    ),
    "mask of another length of a convolution": (
        lambda: ConvolutionModule(3)(QUERY, mask=ones(2, 4)),
        ["`mask` of ConvolutionModule", "(2, 3)", "shape (2, 4)", "one boolean for each"],
    ),
    "transposed attention mask": (
        attend(attention_mask=ones(5, 3)),
        ["`attention_mask` of Attention", "(2, 1, 3, 5)", "shape (5, 3)", "may be 1"],
    ),
    "attention mask of another batch": (
        attend(attention_mask=ones(3, 3, 5)),
        ["`attention_mask` of Attention", "(2, 1, 3, 5)", "shape (3, 3, 5)"],
    ),
    "attention mask of heads without heads": (
        attend(attention_mask=ones(2, 2, 3, 5)),
        ["`attention_mask` of Attention", "(2, 1, 3, 5)", "shape (2, 2, 3, 5)"],
    ),
    "attention mask of other heads": (
        attend(MultiHeadAttention(4, 3), attention_mask=ones(2, 2, 3, 5)),
        ["`attention_mask` of MultiHeadAttention", "(2, 4, 3, 5)", "may be 1"],
    ),
    "memory before there are weights": (
        lambda: Attention("additive", name="look").prepare(VALUE),
        ["'look' (Attention) has no weights yet", "build(query_shape, value_shape)"],
    ),
    "cache of a block before there are weights": (
        lambda: EncoderBlock(2, 8, mask="causal", name="first").start(2, 5),
        ["'first' (EncoderBlock) has no weights yet", "Call the layer once", "build(x_shape)"],
    ),
    "cache of a decoder before there are weights": (
        lambda: DecoderBlock(2, 8).start(VALUE, 5),
        ["(DecoderBlock) has no weights yet", "build(x_shape, encoded_shape)"],
    ),
    "unknown order": (
        lambda: AttentionCell(gru(), order="bahdenau"),
        ["`order` of AttentionCell must be one of bahdanau, conditional, luong", "'bahdenau'"],
    ),
    "units of 0 for a projection": (
        lambda: AttentionCell(gru(), order="luong", units=0),
        ["`units` of AttentionCell must be a positive integer or None", "units=0"],
    ),
    "units of an order without a projection": (
        lambda: AttentionCell(gru(), order="conditional", units=3),
        ["`units`", "order='luong'; order='conditional' has none", "units=3", "Omit it"],
    ),
    "layer in place of a cell": (
        lambda: AttentionCell(keras.layers.GRU(8)),
        ["`cell` of AttentionCell", "GRUCell", "Received: <GRU", "pass the cell instead"],
    ),
    "stacked cells": (
        lambda: AttentionCell(keras.layers.StackedRNNCells([gru()])),
        ["`cell` of AttentionCell", "StackedRNNCells", "not supported"],
    ),
    "name in place of a cell": (
        lambda: AttentionCell("gru"),
        ["`cell` of AttentionCell", "Received: 'gru'"],
    ),
    "RNN cell in place of an AttentionCell": (
        lambda: AttentionRNN(gru()),
        ["`cell` of AttentionRNN must be an AttentionCell", "GRUCell", "Wrap"],
    ),
    "attention of Keras in a cell": (
        lambda: AttentionCell(gru(), keras.layers.MultiHeadAttention(2, 3)),
        ["`attention` of AttentionCell", "prepares a memory", "Received: <MultiHeadAttention"],
    ),
    "score in place of the attention of a cell": (
        lambda: AttentionCell(gru(), scores.Additive()),
        ["`attention` of AttentionCell", "<Additive", "Attention(score)"],
    ),
    "unknown score of a cell": (
        lambda: AttentionCell(gru(), "genral"),
        ["score 'genral'", "Did you mean 'general'?"],
    ),
    "cell whose state the score cannot compare": (
        lambda: AttentionRNN(AttentionCell(gru(), "dot"))(QUERY, NARROW),
        ["score Dot", "query shape (2, 1, 8), key shape (2, 5, 6)", "'general'"],
    ),
    "inputs of one step": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY[:, 0], VALUE),
        ["AttentionRNN needs inputs of shape", "inputs (2, 4), memory (2, 5, 4)", "single step"],
    ),
    "inputs of one step, in a layer that is built": (
        lambda: attend_again(QUERY[:, 0], VALUE, AttentionRNN(AttentionCell(gru()))),
        ["AttentionRNN needs inputs of shape", "inputs (2, 4), memory (2, 5, 4)", "single step"],
    ),
    "memory of rank 2": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY, VALUE[:, 0]),
        ["AttentionRNN needs inputs of shape", "inputs (2, 3, 4), memory (2, 4)"],
    ),
    "memory mask of another length": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY, VALUE, memory_mask=ones(2, 3)),
        ["_mask` of Attention", "(batch, length) = (2, 5)", "shape (2, 3)"],
    ),
    "initial state of another batch": (
        lambda: AttentionRNN(AttentionCell(gru()))(QUERY, VALUE, initial_state=np.ones((3, 8))),
        [
            "of the same batch size",
            "inputs (2, 3, 4), memory (2, 5, 4), initial_state (3, 8)",
            "ops.repeat",
        ],
    ),
    "memory of another batch": (
        lambda: attend_again(QUERY, VALUE[:1], AttentionRNN(AttentionCell(gru()))),
        ["of the same batch size", "inputs (2, 3, 4), memory (1, 5, 4)", "ops.repeat"],
    ),
    "cell without weights": (
        lambda: AttentionCell(gru(), order="luong", name="step").initial_state(np.ones((2, 8))),
        ["'step' (AttentionCell) has no weights yet", "build(inputs_shape, memory_shape)"],
    ),
    "memory that is not prepared": (
        lambda: prepared_cell()(QUERY[:, 0], [np.ones((2, 8))], VALUE),
        ["`memory` of Attention must be what its `prepare` returned", "shape (2, 5, 4)"],
    ),
    "initial state of another size": (
        lambda: prepared_cell().initial_state(np.ones((2, 6))),
        ["initial state", "(batch, 8)", "GRUCell", "shape (2, 6)", "keras.layers.Dense(8)"],
    ),
    "unknown position": (
        lambda: positions.get("rotery"),
        ["position 'rotery'", "Did you mean 'rotary'?", "alibi"],
    ),
    "position on embeddings inside a head": (
        lambda: EncoderBlock(2, 8, position=positions.SinusoidalPosition()),
        ["`position` must be", "a subclass of Position", "SinusoidalPosition"],
    ),
    "unknown mode of a position": (
        lambda: positions.SinusoidalPosition(mode="concat"),
        ["`mode` of SinusoidalPosition must be one of add, concatenate", "mode='concat'"],
    ),
    "size of a position that is added": (
        lambda: positions.LearnedPosition(9, size=4),
        ["`size` of LearnedPosition is for mode='concatenate'", "size=4", "Omit `size`"],
    ),
    "position vectors of size 0": (
        lambda: positions.SinusoidalPosition("concatenate", size=0),
        ["`size` of SinusoidalPosition must be a positive integer", "size=0"],
    ),
    "wavelength of 0": (
        lambda: positions.SinusoidalPosition(max_wavelength=0),
        ["`max_wavelength` of SinusoidalPosition must be above 1", "max_wavelength=0"],
    ),
    "wavelength of rotary below that of the first pair": (
        lambda: positions.Rotary(max_wavelength=0.5),
        ["`max_wavelength` of Rotary must be above 1", "max_wavelength=0.5"],
    ),
    "position of a single vector": (
        lambda: positions.SinusoidalPosition()(QUERY[:, 0]),
        ["SinusoidalPosition needs embeddings of shape", "(2, 4)", "x[:, None, :]"],
    ),
    "start of each vector": (
        lambda: positions.SinusoidalPosition()(QUERY, start=np.array([[0, 1]])),
        ["`start` of SinusoidalPosition must be one integer", "one for each", "shape (1, 2)"],
    ),
    "start between two positions": (
        lambda: positions.SinusoidalPosition()(QUERY, start=1.5),
        ["`start` of SinusoidalPosition must be one integer", "shape (), float32"],
    ),
    "no learned positions": (
        lambda: positions.LearnedPosition(0),
        ["`max_length` of LearnedPosition must be a positive integer", "max_length=0"],
    ),
    "sequence longer than the learned positions": (
        lambda: positions.LearnedPosition(2)(QUERY),
        ["positions 0 to 1", "shape (2, 3, 4), start=0", "`max_length`", "SinusoidalPosition"],
    ),
    "start beyond the learned positions": (
        lambda: positions.LearnedPosition(9)(QUERY, start=7),
        ["LearnedPosition has vectors for the positions 0 to 8", "start=7"],
    ),
    "negative start": (
        lambda: positions.LearnedPosition(9)(QUERY, start=-1),
        ["LearnedPosition has vectors for the positions 0 to 8", "start=-1"],
    ),
    "fraction of rotary above 1": (
        lambda: positions.Rotary(fraction=1.5),
        ["`fraction` of Rotary must be above 0 and at most 1", "fraction=1.5"],
    ),
    "rotary of an odd size": (
        lambda: positions.Rotary().build((2,), 5),
        ["Rotary rotates pairs", "even number", "heads of size 5", "key_dim"],
    ),
    "rotary of an odd part": (
        lambda: positions.Rotary(fraction=0.5).build((), 6),
        ["Rotary rotates pairs", "heads of size 6, of which fraction=0.5 rotates 3"],
    ),
    "odd number of buckets for both sides": (
        lambda: positions.T5Bias(num_buckets=31),
        ["`num_buckets` of T5Bias must be at least 4, and even", "num_buckets=31"],
    ),
    "one bucket": (
        lambda: positions.T5Bias(num_buckets=1, bidirectional=False),
        ["`num_buckets` of T5Bias must be at least 2", "num_buckets=1, bidirectional=False"],
    ),
    "distance that leaves no range to the buckets": (
        lambda: positions.T5Bias(max_distance=8),
        ["`max_distance` of T5Bias must be above 8", "num_buckets=32, max_distance=8", "fewer"],
    ),
    "no relative positions": (
        lambda: positions.Shaw(max_distance=0),
        ["`max_distance` of Shaw must be a positive integer", "max_distance=0"],
    ),
    "waves without a length": (
        lambda: positions.TransformerXL(max_wavelength=1),
        ["`max_wavelength` of TransformerXL must be above 1", "max_wavelength=1"],
    ),
    "buckets of distances that no quarter divides": (
        lambda: positions.DistanceEmbedding(num_buckets=10),
        ["`num_buckets` of DistanceEmbedding must be a positive multiple of 4", "num_buckets=10"],
    ),
    "distance within the exact buckets": (
        lambda: positions.DistanceEmbedding(5, 16),
        ["`max_distance` of DistanceEmbedding must be above 5", "num_buckets=16, max_distance=5"],
    ),
    "normalization of distances without an epsilon": (
        lambda: positions.DistanceEmbedding(epsilon=0),
        ["`epsilon` of DistanceEmbedding must be a number above 0", "None for none"],
    ),
    "number in place of an embedding of distances": (
        lambda: positions.Disentangled(512),
        ["`embedding` of Disentangled must be a DistanceEmbedding", "Received: 512"],
    ),
    "disentangled position in two layers": (
        lambda: share_position(positions.Disentangled()),
        ["the projections of one multi-head layer", "share the vectors: Disentangled(embedding)"],
    ),
    "disentangled position of queries and keys of two sizes": (
        lambda: MultiHeadAttention(2, 4, position="disentangled")(QUERY, QUERY[..., :3]),
        ["must have the same size", f"queries of size {QUERY.shape[-1]}, keys of size 3"],
    ),
    "position embedding without vectors": (
        lambda: positions.PositionEmbedding()(QUERY),
        ["PositionEmbedding must implement `vectors(positions)`"],
    ),
    "score of each head that layers share": (
        lambda: share(score=scores.Additive()),
        [
            "`score` of Attention",
            "Additive built for heads (), in the layer 'attention'",
            "with heads (4,)",
            "a score of its own",
        ],
    ),
    "slopes of each head that layers share": (
        lambda: share(position=positions.ALiBi()),
        ["`position` of Attention", "ALiBi built for heads ()", "position of its own"],
    ),
    "biases of each head that layers share": (
        lambda: share(position=positions.T5Bias()),
        ["`position` of Attention", "T5Bias built for heads ()", "with heads (4,)"],
    ),
    **{
        f"keys of another size than in the first call, {score}": (
            lambda score=score: attend_again(QUERY, NARROW, Attention(score)),
            ["of size 4 cannot be", f"size {size}", "that it was built for", "a new layer"],
        )
        for score, size in (("general", 6), ("scaled_dot", 6))
    },
    "queries of another size than in the first call": (
        lambda: attend_again(NARROW, VALUE, Attention("additive")),
        ["Vectors of size 6 cannot be multiplied", "weights for size 4", "shapes (2, 5, 6)"],
    ),
    "sizes that differ in a later call": (
        lambda: attend_again(QUERY[..., :3], VALUE, Attention("euclidean")),
        ["The score Euclidean needs queries and keys of the same size"],
    ),
    "steps of a block that looks ahead": (
        lambda: EncoderBlock(2, 8).start(2, 3),
        ["`mask` of EncoderBlock must be causal for steps", "mask=None", "mask='causal'"],
    ),
    "size that the heads of a block do not share": (
        lambda: EncoderBlock(3, 8)(QUERY),
        ["EncoderBlock splits the size", "x of shape (2, 3, 4), num_heads=3", "`key_dim`"],
    ),
    "unknown place of the normalization": (
        lambda: DecoderBlock(2, 8, normalize="first"),
        ["`normalize` of DecoderBlock must be one of post, pre", "normalize='first'"],
    ),
    "block without heads": (
        lambda: EncoderBlock(0, 8),
        ["`num_heads` of EncoderBlock must be a positive integer", "num_heads=0"],
    ),
    "feed-forward network of size 0": (
        lambda: FeedForward(0),
        ["`hidden` of FeedForward must be a positive integer", "hidden=0"],
    ),
    "attention dropout of a block of 1": (
        lambda: EncoderBlock(2, 8, attention_dropout=1.0),
        ["`attention_dropout` of EncoderBlock must be at least 0", "attention_dropout=1.0"],
    ),
    "unknown score of a block": (
        lambda: DecoderBlock(2, 8, score="aditive"),
        ["score 'aditive'", "Did you mean 'additive'"],
    ),
    "convolution of no size": (
        lambda: ConformerBlock(2, 8, kernel_size=0),
        ["`kernel_size` of ConformerBlock must be a positive integer", "kernel_size=0"],
    ),
    "unknown normalization of a convolution": (
        lambda: ConformerBlock(2, 8, convolution_norm="group"),
        ["`convolution_norm` of ConformerBlock must be one of batch, layer", "'group'"],
    ),
    "unknown normalization of a convolution module": (
        lambda: ConvolutionModule(norm="bach"),
        ["norm of ConvolutionModule 'bach'", "Did you mean 'batch'"],
    ),
    "bias of an unknown part of a Conformer": (
        lambda: ConformerBlock(2, 8, use_bias=["convolutions"]),
        ["`use_bias` of ConformerBlock", "feed_forward, convolution", "convolutions"],
    ),
    "block on a single vector": (
        lambda: EncoderBlock(2, 8)(QUERY[:, 0]),
        ["EncoderBlock needs x of shape (batch, length, size)", "x (2, 4)", "x[:, None, :]"],
    ),
    "decoder block on an encoded vector": (
        lambda: DecoderBlock(2, 8)(QUERY, NARROW[:, 0]),
        ["DecoderBlock needs x and encoded of shape", "x (2, 3, 4), encoded (2, 6)"],
    ),
    "mask of another length for a block": (
        lambda: EncoderBlock(2, 8)(QUERY, mask=ones(2, 5)),
        ["`mask` of EncoderBlock", "(batch, length) = (2, 3)", "shape (2, 5)"],
    ),
    "mask of the target for what was encoded": (
        lambda: DecoderBlock(2, 8)(QUERY, NARROW, encoded_mask=ones(2, 3)),
        ["`encoded_mask` of DecoderBlock", "(batch, length) = (2, 5)", "shape (2, 3)"],
    ),
    "unknown mode of local attention": (
        lambda: LocalAttention("local-p"),
        ["`mode` of LocalAttention", "monotonic, predictive", "'local-p'"],
    ),
    "window without a width": (
        lambda: LocalAttention(half_width=0),
        ["`half_width` of LocalAttention must be a positive integer", "half_width=0"],
    ),
    "units of a place that nobody predicts": (
        lambda: LocalAttention("monotonic", units=3),
        ["`units` of LocalAttention", "mode='predictive'", "units=3", "Omit it"],
    ),
    "units of a place that are none": (
        lambda: LocalAttention(units=2.5),
        ["`units` of LocalAttention must be a positive integer or None", "units=2.5"],
    ),
    "weights to multiply that are never formed": (
        lambda: LocalAttention("predictive", implementation="chunked"),
        ["LocalAttention(mode='predictive')", "'auto' or 'reference'", "'chunked'"],
    ),
    "step that does not say where it is": (
        lambda: AttentionRNN(AttentionCell(gru(), LocalAttention("monotonic")))(QUERY, VALUE),
        ["LocalAttention(mode='monotonic')", "start=t", "mode='predictive'"],
    ),
    **{
        f"vectors in place of a memory, {mode}": (
            lambda mode=mode: LocalAttention(mode).attend(QUERY, VALUE, start=0),
            ["`memory` of LocalAttention must be what its `prepare` returned", "(2, 5, 4)"],
        )
        for mode in ("monotonic", "predictive")
    },
    "unknown kernel of random features": (
        lambda: PerformerAttention(2, 3, kernel="exp"),
        ["`kernel` of PerformerAttention must be one of softmax, relu", "'exp'"],
    ),
    "no features": (
        lambda: PerformerAttention(2, 3, num_features=0),
        ["`num_features` of PerformerAttention must be a positive integer", "num_features=0"],
    ),
    "score of an approximation": (
        lambda: PerformerAttention(2, 3, score="dot", mask="causal"),
        ["PerformerAttention", "Unrecognized keyword arguments", "score"],
    ),
    "mask of pairs that are never formed": (
        attend(PerformerAttention(2, 3), attention_mask=ones(3, 5)),
        ["PerformerAttention cannot honour `attention_mask`", "value_mask", "MultiHeadAttention"],
    ),
    "causal step in the middle of the keys": (
        lambda: causal_performer_step(start=1),
        ["PerformerAttention cannot honour `start`", "end where the keys end", "Omit it"],
    ),
    "no mixtures": (
        lambda: LinformerAttention(2, 3, projected_length=0),
        ["`projected_length` of LinformerAttention must be a positive integer", "=0"],
    ),
    "more keys than there are columns": (
        attend(LinformerAttention(2, 3, max_length=4)),
        ["LinformerAttention mixes at most max_length=4 keys", "(2, 5, 4)", "larger max_length"],
    ),
    "causal mixtures": (
        attend(LinformerAttention(2, 3), use_causal_mask=True),
        ["LinformerAttention cannot honour `use_causal_mask`", "from all positions"],
    ),
    "mask of pairs of mixtures": (
        attend(LinformerAttention(2, 3), attention_mask=ones(3, 5)),
        ["LinformerAttention cannot honour `attention_mask`", "value_mask or key_mask"],
    ),
    "odd number of buckets": (
        lambda: ReformerAttention(2, 3, max_buckets=7),
        ["`max_buckets` of ReformerAttention must be even", "max_buckets=7", "Use 8"],
    ),
    "no rounds": (
        lambda: ReformerAttention(2, 3, num_hashes=0),
        ["`num_hashes` of ReformerAttention must be a positive integer", "num_hashes=0"],
    ),
    "key beside shared queries": (
        attend(ReformerAttention(2, 3), query=VALUE, key=VALUE),
        ["ReformerAttention cannot honour `key`", "Omit it", "MultiHeadAttention"],
    ),
    "cross-attention within one sequence": (
        attend(ReformerAttention(2, 3)),
        ["ReformerAttention attends within one sequence", "query (2, 3, 4), value (2, 5, 4)"],
    ),
    "mask of pairs of buckets": (
        attend(ReformerAttention(2, 3), query=VALUE, attention_mask=ones(5, 5)),
        ["ReformerAttention cannot honour `attention_mask`", "same bucket", "causal=True"],
    ),
    "score without pairwise": (
        lambda: scores.Score()(QUERY, VALUE),
        ["Score must implement `pairwise(query, key)`"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    make, fragments = MISTAKES[mistake]
    with pytest.raises((ValueError, NotImplementedError)) as caught:
        make()
    for fragment in fragments:
        assert fragment in str(caught.value)
