"""Implementations of attention, with the same results at different cost, and the choice of one.

`"reference"` supports everything. The others never hold all weights, so they cannot return them.
`"blocked"` needs a normalizer with the gradient of a softmax: softmax or softmax-one. `"chunked"`
needs one whose rows it can sum up tile by tile: softmax, softmax-one or sum. `"fused"` needs the
score `"scaled_dot"` with softmax, and neither a position that adds to the scores, nor a soft cap,
nor dropout. `"auto"` uses the reference where they do not fit.

With JAX, take Jacobians in reverse mode, `jax.jacrev`. Softmax with a mask, `"blocked"` and
`"chunked"` have gradients of their own, so `jax.jvp` and `jax.jacfwd` of a layer raise a
`TypeError`. `jax.hessian` works, since it takes the gradient first.
"""

import math
from typing import NamedTuple

from keras_attention import normalizers, scores
from keras_attention._backend import has_fast_kernel
from keras_attention._keras import in_symbolic_scope
from keras_attention.compute import blocked, chunked, fused, reference
from keras_attention.compute.dropout import WeightDropout
from keras_attention.compute.online import ONLINE
from keras_attention.compute.scoring import Scoring

IMPLEMENTATIONS = ("reference", "blocked", "chunked", "fused")
NAMES = ("auto", *IMPLEMENTATIONS)

NORMALIZERS = {"blocked": blocked.NORMALIZERS, "chunked": tuple(ONLINE)}

# Number of values in the scores up to which `"auto"` holds them all.
LARGE = 2**26


class Pairs(NamedTuple):
    """Numbers of values in scores: of all pairs, and of those that `"blocked"` computes."""

    total: int
    in_blocks: int


def require_known(implementation):
    """Raises a `ValueError` unless there is an implementation with this name."""
    if implementation not in NAMES:
        raise ValueError(
            f"`implementation` must be one of {', '.join(map(repr, NAMES))}. "
            f"Received: {implementation!r}."
        )


def choose(implementation, scoring, normalizer, with_weights=False, dropout=None, pairs=None):
    """Returns the name of the implementation that runs, with `"auto"` resolved.

    Args:
        implementation: The implementation requested by the user.
        scoring, normalizer, with_weights, dropout: As for `context_and_weights`.
        pairs: What `number_of_pairs` returns.

    Raises:
        ValueError: If the requested implementation does not support this.
    """
    if implementation == "auto":
        wanted = {
            "fused": has_fast_kernel(),
            "blocked": pairs is None or pairs.in_blocks <= LARGE,
            "chunked": pairs is not None and pairs.total > LARGE,
        }
        for name in (name for name, is_wanted in wanted.items() if is_wanted):
            if _obstacle(name, scoring, normalizer, with_weights, dropout) is None:
                return name
        return "reference"
    obstacle = _obstacle(implementation, scoring, normalizer, with_weights, dropout)
    if obstacle:
        raise ValueError(
            f"implementation={implementation!r} does not support {obstacle}. Use "
            "implementation='reference', or 'auto', which uses it where needed."
        )
    return implementation


def _obstacle(implementation, scoring, normalizer, with_weights, dropout):
    """Returns what an implementation does not support of this, or `None`."""
    if implementation == "reference":
        return None
    if with_weights:
        return "return_attention_scores=True, since it never holds all weights"
    if implementation in NORMALIZERS:
        if type(normalizer) in NORMALIZERS[implementation]:
            return None
        possible = ", ".join(each.__name__ for each in NORMALIZERS[implementation])
        return f"normalizer {type(normalizer).__name__}: it supports only {possible}"
    for name, thing, possible in (
        ("score", scoring.score, scores.ScaledDot),
        ("normalizer", normalizer, normalizers.Softmax),
    ):
        if type(thing) is not possible:
            return f"{name} {type(thing).__name__}: it supports only {possible.__name__}"
    if scoring.has_bias or scoring.soft_cap is not None or dropout is not None:
        return "a position that adds to the scores, a soft cap or dropout"
    return None


def number_of_pairs(shape, pair_size, mask=None, start=None):
    """Returns how many values the scores have, as `Pairs`; `None` if a size is unknown.

    Args:
        shape: `(batch, *heads, query_length, key_length)`.
        pair_size: Number of values per pair that a score computes at a time.
        mask, start: As for `context_and_weights`.
    """
    if not all(isinstance(size, int) for size in shape):  # unknown sizes of JAX are not None
        return None
    *lead, query_length, key_length = shape
    values = math.prod(lead) * pair_size
    total = in_blocks = values * query_length * key_length
    if total > LARGE:
        in_blocks = values * blocked.pairs_in_blocks(query_length, key_length, mask, start)
    return Pairs(total, in_blocks)


def context_and_weights(
    implementation,
    queries,
    key,
    value,
    *,
    scoring,
    normalizer,
    mask=None,
    dropout=None,
    start=None,
    training=None,
    with_weights=True,
):
    """Computes attention. Scores and weights are float32 whatever the dtype of the inputs.

    Args:
        implementation: `"auto"` or one of `IMPLEMENTATIONS`.
        queries: List of the prepared queries `(batch, *heads, query_length, size)` and, if the
            scoring needs them, other features of the queries.
        key: Prepared keys `(batch, *heads, key_length, size)`.
        value: Tensor `(batch, *heads, key_length, value_size)`.
        scoring: A `Scoring`.
        normalizer: A `Normalizer`.
        mask: A `Mask` or `None`.
        dropout: A `WeightDropout` or `None`.
        start: Position of the first query; by default, the last query has the position of the last
            key.
        training: Passed to the normalizer: some normalizers sample during training only.
        with_weights: Whether to return the weights.

    Returns:
        `(context, weights)`: the context `(batch, *heads, query_length, value_size)` in the dtype
        of `value`, and the weights before dropout `(batch, *heads, query_length, key_length)`, or
        `None` if not requested.
    """
    shape = *queries[0].shape[:-1], key.shape[-2]
    pairs = number_of_pairs(shape, scoring.pair_size, mask, start)
    name = choose(implementation, scoring, normalizer, with_weights, dropout, pairs)
    if name == "fused":
        return fused.attend_by_kernel(queries, key, value, mask=mask, start=start), None
    arguments = {"scoring": scoring, "normalizer": normalizer, "mask": mask, "dropout": dropout}
    # Without pairs there are neither tiles nor scores, and symbolic tensors only have a shape.
    if name == "chunked" and 0 not in shape and not in_symbolic_scope():
        if not all(size is None or isinstance(size, int) for size in shape):
            raise ValueError(
                "implementation='chunked' cuts lengths into tiles, which JAX cannot do with a "
                f"symbolic length. Received: {shape}. Export with known lengths, or use "
                "implementation='reference'."
            )
        return chunked.attend_in_tiles(queries, key, value, start=start, **arguments), None
    arguments |= {"start": start, "training": training}
    if name == "blocked":
        return blocked.attend_in_blocks(queries, key, value, **arguments), None
    context, weights = reference.attend_at_once(queries, key, value, **arguments)
    return context, weights if with_weights else None


__all__ = [
    "IMPLEMENTATIONS",
    "Scoring",
    "WeightDropout",
    "choose",
    "context_and_weights",
    "require_known",
]
