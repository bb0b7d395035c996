"""Users' mistakes with positions, and what the messages say."""

import numpy as np
import pytest

from keras_attention import Attention, MultiHeadAttention, positions
from keras_attention.transformer import EncoderBlock
from tests.attention.mistakes import NARROW, QUERY, VALUE, attend, check_message, share

LONGROPE = positions.LongRoPE(factor=2, original_length=8, short=[1], long=[1])


def share_position(position):
    for _ in range(2):
        MultiHeadAttention(2, 4, position=position)(QUERY, QUERY)


# what the user did: (how, what the message must say)
MISTAKES = {
    "embeddings of positions inside the heads": (
        lambda: Attention(position="sinusoidal"),
        ["Unknown position 'sinusoidal'", "layers for the embeddings", "SinusoidalPosition()(x)"],
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
    "unknown kind of penalty": (
        lambda: positions.Kerple("log"),
        ["`kind` of Kerple must be one of logarithmic, power", "kind='log'"],
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
    "grid of no rows": (
        lambda: positions.GridBias((0, 4)),
        ["`grid` of GridBias must be an integer of at least 1, or two of them", "grid=(0, 4)"],
    ),
    "window of three sides": (
        lambda: positions.GridBias(8, window=(2, 2, 2)),
        ["`window` of GridBias must be an integer", "for rows and columns", "window=(2, 2, 2)"],
    ),
    "negative number of tokens in front of a grid": (
        lambda: positions.GridRotary(4, num_prefix_tokens=-1),
        ["`num_prefix_tokens` of GridRotary", "at least 0", "num_prefix_tokens=-1"],
    ),
    "coordinates of a grid in pixels": (
        lambda: positions.GridRotary(4, coordinates="pixels"),
        ["`coordinates` of GridRotary must be one of normalized, indices", "coordinates='pixels'"],
    ),
    "rotary of a grid with a text for a wavelength": (
        lambda: positions.GridRotary(4, max_wavelength="a"),
        ["`max_wavelength` of GridRotary must be above 1", "max_wavelength='a'"],
    ),
    "rotary of a grid for pairs that rows and columns cannot share": (
        lambda: positions.GridRotary(4).build((2,), 6),
        ["GridRotary rotates pairs", "a multiple of 4", "heads of size 6", "key_dim"],
    ),
    "rotary of a grid for keys of another size": (
        attend(Attention("general", position=positions.GridRotary(4)), VALUE, NARROW),
        ["GridRotary rotates pairs", "a multiple of 4", "heads of size 6"],
    ),
    "fraction of rotary as a text": (
        lambda: positions.Rotary(fraction="0.5"),
        ["`fraction` of Rotary must be above 0 and at most 1", "fraction='0.5'"],
    ),
    "no limit of frequencies that are kept": (
        lambda: positions.Llama3Scaling(factor=2, original_length=8, high=None),
        ["`high` of Llama3Scaling must be a number above low=1.0", "high=None"],
    ),
    "number for the factors of long texts": (
        lambda: positions.LongRoPE(factor=2, original_length=8, short=[1, 2], long=4),
        ["`long` of LongRoPE must be a list of numbers above 0", "long=4"],
    ),
    "factors for other frequencies": (
        attend(Attention("general", position=positions.Rotary(scaling=LONGROPE)), VALUE),
        ["`short` of LongRoPE must be one factor for each of the", "short=(1,)"],
    ),
    "length for which the magnitude is not defined": (
        lambda: positions.LongRoPE(factor=2, original_length=1, short=[1], long=[1]),
        ["`original_length` of LongRoPE must be at least 2", "original_length=1"],
    ),
    "name of a position that needs a grid": (
        lambda: positions.get("grid_rotary"),
        ["Unknown position 'grid_rotary'", "GridRotary, need the grid and are objects"],
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
    "slopes of each head that layers share": (
        lambda: share(position=positions.ALiBi()),
        ["`position` of Attention", "ALiBi built for heads ()", "position of its own"],
    ),
    "biases of each head that layers share": (
        lambda: share(position=positions.T5Bias()),
        ["`position` of Attention", "T5Bias built for heads ()", "with heads (4,)"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    check_message(*MISTAKES[mistake])
