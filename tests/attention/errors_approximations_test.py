"""Users' mistakes with local attention and the approximations, and what the messages say."""

import pytest

from keras_attention.cross_covariance import CrossCovarianceAttention
from keras_attention.gated_delta import GatedDeltaAttention
from keras_attention.gated_linear import GatedLinearAttention
from keras_attention.gaussian_mixture import GaussianMixtureAttention
from keras_attention.kimi_delta import KimiDeltaAttention
from keras_attention.linear import LinearAttention
from keras_attention.linformer import LinformerAttention
from keras_attention.local import LocalAttention
from keras_attention.nystrom import NystromAttention
from keras_attention.performer import PerformerAttention
from keras_attention.reformer import ReformerAttention
from keras_attention.retention import RetentionAttention
from tests.attention.mistakes import QUERY, VALUE, attend, check_message, ones


def causal_performer_step(start):
    layer = PerformerAttention(2, 3, causal=True)
    layer(QUERY, VALUE)
    return layer.attend(QUERY, layer.prepare(VALUE), start=start)


def linear_step(memory=None, causal=True, mask=None, start=0, x=VALUE, **arguments):
    """A step from 3 positions to the next 5."""
    layer = LinearAttention(2, 3, causal=causal)
    layer(QUERY, QUERY)
    if memory is None:
        _, _, memory = layer.step(QUERY, layer.room_for(QUERY, mask), 0)
    return layer.step(x, memory, start, **arguments)


def delta_step(start=3, **arguments):
    layer = GatedDeltaAttention(2, 3)
    layer(QUERY, QUERY)
    _, _, memory = layer.step(QUERY, layer.room_for(QUERY), 0)
    return layer.step(VALUE, memory, start, **arguments)


def nystrom_step(kernel_size):
    layer = NystromAttention(2, 3, kernel_size=kernel_size)
    layer(VALUE, VALUE)
    return layer.attend(VALUE[:, :1], layer.prepare(VALUE))


# what the user did: (how, what the message must say)
MISTAKES = {
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
    **{
        f"vectors in place of a memory, {mode}": (
            lambda mode=mode: LocalAttention(mode).attend(QUERY, VALUE, start=0),
            ["`memory` of LocalAttention must be what its `prepare` returned", "(2, 5, 4)"],
        )
        for mode in ("monotonic", "predictive")
    },
    "mixture of nothing": (
        lambda: GaussianMixtureAttention(0),
        ["`num_components` of GaussianMixtureAttention must be a positive integer", "=0"],
    ),
    "Gaussians that stand still": (
        lambda: GaussianMixtureAttention(initial_step=0),
        ["`initial_step` of GaussianMixtureAttention", "above 0", "initial_step=0"],
    ),
    "Gaussians of no width": (
        lambda: GaussianMixtureAttention(initial_width="10"),
        ["`initial_width` of GaussianMixtureAttention", "above 0", "initial_width='10'"],
    ),
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
    "step of linear attention that looks ahead": (
        lambda: linear_step(causal=False),
        ["LinearAttention must be causal for steps", "causal=False", "with causal=True"],
    ),
    "padding in a sum": (
        lambda: linear_step(mask=ones(2, 8)),
        ["LinearAttention cannot honour `mask`", "only sums", "without padding"],
    ),
    "weights of a step without keys": (
        lambda: linear_step(start=3, return_attention_scores=True),
        ["cannot honour `return_attention_scores`", "only sums", "on the whole sequence"],
    ),
    "step back": (
        lambda: linear_step(start=2),
        ["`start` of a step of LinearAttention", "start=2, a memory of 3", "keep the memory"],
    ),
    "step without a memory": (
        lambda: linear_step(memory=VALUE),
        ["`memory` of a step of LinearAttention", "Received: ndarray", "layer.room_for(x)"],
    ),
    "step of more rows than the memory has": (
        lambda: linear_step(start=3, x=VALUE[[0, 0, 1, 1]]),
        ["one row for each row of `x`", "2 rows, x of shape (4, 5, 4)", "keras.ops.repeat"],
    ),
    "step of a vector without a length axis": (
        lambda: linear_step(start=3, x=VALUE[:, 0]),
        ["LinearAttention needs query, value and key", "(2, 4)", "x[:, None, :]"],
    ),
    "heads of keys that serve no equal parts": (
        lambda: GatedDeltaAttention(4, 3, num_key_heads=3),
        ["`num_key_heads` of GatedDeltaAttention must divide", "num_key_heads=3, num_heads=4"],
    ),
    "no heads of keys": (
        lambda: GatedDeltaAttention(4, 3, num_key_heads=0),
        ["`num_key_heads` of GatedDeltaAttention must be a positive integer or None", "=0"],
    ),
    "convolution of no positions": (
        lambda: GatedDeltaAttention(4, 3, kernel_size=0),
        ["`kernel_size` of GatedDeltaAttention must be a positive integer or None", "=0"],
    ),
    **{
        f"strength {strength} of a correction": (
            lambda strength=strength: GatedDeltaAttention(4, 3, max_strength=strength),
            ["`max_strength` of GatedDeltaAttention", "above 0 and at most 2", f"={strength!r}"],
        )
        for strength in (0.0, 2.5, "large", True)
    },
    "key beside the sequence": (
        attend(GatedDeltaAttention(2, 3), query=VALUE, key=VALUE),
        ["GatedDeltaAttention cannot honour `key`", "Omit it", "MultiHeadAttention"],
    ),
    **{
        f"epsilon {epsilon} of {layer.__name__}": (  # hidden positions would become 0 / 0
            lambda layer=layer, epsilon=epsilon: layer(2, 4, epsilon=epsilon),
            [f"`epsilon` of {layer.__name__} must be a finite number above 0", f"={epsilon}"],
        )
        for layer in (
            GatedDeltaAttention,
            GatedLinearAttention,
            KimiDeltaAttention,
            RetentionAttention,
        )
        for epsilon in (-1e-6, 0)
    },
    "cross-attention from a memory that is written": (
        attend(RetentionAttention(2, 4)),
        ["RetentionAttention attends within one sequence", "query (2, 3, 4), value (2, 5, 4)"],
    ),
    "mask of pairs of a memory": (
        attend(RetentionAttention(2, 4), query=VALUE, attention_mask=ones(5, 5)),
        ["RetentionAttention cannot honour `attention_mask`", "query_mask or value_mask"],
    ),
    "position that does not rotate": (
        lambda: RetentionAttention(2, 4, position="alibi"),
        ["`position` of RetentionAttention must be 'rotary'", "position='alibi'", "MultiHead"],
    ),
    "step back from what was corrected": (
        lambda: delta_step(start=2),
        ["`start` of a step of GatedDeltaAttention", "start=2, a memory of 3", "keep the memory"],
    ),
    "weights of a step without positions": (
        lambda: delta_step(return_attention_scores=True),
        ["GatedDeltaAttention cannot honour `return_attention_scores`", "the whole sequence"],
    ),
    "step without weights": (
        lambda: GatedDeltaAttention(2, 3).room_for(VALUE),
        ["GatedDeltaAttention) has no weights yet", "build(query_shape, value_shape)"],
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
    "no landmarks": (
        lambda: NystromAttention(2, 3, num_landmarks=0),
        ["`num_landmarks` of NystromAttention must be a positive integer", "num_landmarks=0"],
    ),
    "no steps to the inverse": (
        lambda: NystromAttention(2, 3, num_iterations=0),
        ["`num_iterations` of NystromAttention must be a positive integer", "num_iterations=0"],
    ),
    "convolution of nothing": (
        lambda: NystromAttention(2, 3, kernel_size=0),
        ["`kernel_size` of NystromAttention must be a positive integer or None", "kernel_size=0"],
    ),
    "convolution of values at the places of other queries": (
        attend(NystromAttention(2, 3, kernel_size=3)),
        ["NystromAttention with a `kernel_size`", "query of length 3", "use kernel_size=None"],
    ),
    "convolution for a single step": (
        lambda: nystrom_step(kernel_size=3),
        ["NystromAttention with a `kernel_size`", "query of length 1, value of length 5"],
    ),
    "causal landmarks": (
        attend(NystromAttention(2, 3), use_causal_mask=True),
        ["NystromAttention cannot honour `use_causal_mask`", "over the whole sequence"],
    ),
    "mask of pairs of landmarks": (
        attend(NystromAttention(2, 3), attention_mask=ones(3, 5)),
        ["NystromAttention cannot honour `attention_mask`", "value_mask or key_mask"],
    ),
    "values with other channels than the keys": (
        lambda: CrossCovarianceAttention(2, 3, 4),
        ["`value_dim` of CrossCovarianceAttention must be key_dim=3", "value_dim=4", "output_dim"],
    ),
    "causal channels": (
        attend(CrossCovarianceAttention(2, 3), query=VALUE, use_causal_mask=True),
        ["CrossCovarianceAttention cannot honour `use_causal_mask`", "on all positions"],
    ),
    "mask of pairs of channels": (
        attend(CrossCovarianceAttention(2, 3), query=VALUE, attention_mask=ones(5, 5)),
        ["CrossCovarianceAttention cannot honour `attention_mask`", "value_mask or key_mask"],
    ),
    "channels of sequences of two lengths": (
        attend(CrossCovarianceAttention(2, 3)),
        ["CrossCovarianceAttention attends within one sequence", "value (2, 5, 4)"],
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
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_message_says_who_what_and_how(mistake):
    check_message(*MISTAKES[mistake])
