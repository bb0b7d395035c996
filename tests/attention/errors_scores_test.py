"""Users' mistakes with scores and normalizers, and what the messages say."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    MultiHeadAttention,
    NadarayaWatson,
    normalizers,
    scores,
)
from tests.attention.mistakes import (
    NARROW,
    QUERY,
    VALUE,
    attend,
    attend_again,
    check_message,
    share,
)


class Unsummed(scores.Score):
    def pairwise(self, query, key):
        return query[..., :, None, :] - key[..., None, :, :]


class WithoutKeepdims(normalizers.Normalizer):
    """A custom normalizer whose weights would still broadcast with the values."""

    def __call__(self, scores, visible=None, training=None):
        return keras.ops.max(scores, axis=-1)


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
    "custom normalizer without keepdims": (
        lambda: MultiHeadAttention(2, 4, normalizer=WithoutKeepdims())(QUERY, QUERY),
        ["WithoutKeepdims must return weights", "(2, 2, 3, 3)", "shape (2, 2, 3)", "keepdims=True"],
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
    "lambda in a config": (
        lambda: Attention(lambda query, key: query).get_config(),
        ["'<lambda>' cannot be saved", "Define it with `def`", "register_keras_serializable"],
    ),
    "seed of a normalizer that is no integer": (
        lambda: normalizers.Hard(stochastic=True, seed="x"),
        ["`seed` of the normalizer Hard must be an integer or None", "seed='x'"],
    ),
    "no highest scores": (
        lambda: normalizers.TopK(0),
        ["`k` of TopK must be a positive integer", "k=0"],
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
    "kernel that is no score": (
        lambda: NadarayaWatson(2.0),
        ["`kernel` of NadarayaWatson must be one of boxcar, epanechnikov", "kernel=2.0"],
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
    "scale of a dot product of 0": (
        lambda: scores.ScaledDot(scale=0),
        ["`scale` of the score ScaledDot", "above 0, or None", "scale=0"],
    ),
    "sizes that scaled_dot cannot compare": (
        attend(Attention("scaled_dot"), key=NARROW),
        ["score ScaledDot", "same size", "(2, 5, 6)", "keras.layers.Dense"],
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
    "score without pairwise": (
        lambda: scores.Score()(QUERY, VALUE),
        ["Score must implement `pairwise(query, key)`"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    check_message(*MISTAKES[mistake])
