"""Configurations of attention, random by seed: outputs and gradients against float64.

As a script, `one_head N` checks every N-th configuration with one head (together they cover every
score, position, normalizer, mask and implementation), and the approximations with one head.
`in_every_form FIRST LAST` checks random ones of these seeds, with gradients in every form.
"""

import contextlib
import itertools
import sys
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
from keras import ops

from keras_attention import (
    Attention,
    BlockSelectionAttention,
    CrossCovarianceAttention,
    GatedDeltaAttention,
    GatedLinearAttention,
    KimiDeltaAttention,
    LinearAttention,
    LinformerAttention,
    LongformerAttention,
    MultiHeadAttention,
    NystromAttention,
    PerformerAttention,
    ReformerAttention,
    RetentionAttention,
    normalizers,
    positions,
    scores,
)
from keras_attention.compute import blocked, tiles
from tests.attention import mask_cases, oracle
from tests.attention.gradients import layer_gradients

SIZE, LONGEST = 6, 13
LENGTHS = range(1, LONGEST + 1, 2)
BATCHES = 1, 2, 4
WITH_MAX_LENGTH = {"location", "dense_synthesizer", "random_synthesizer"}
WITH_WIDTH = {"boxcar", "gaussian", "triangular", "epanechnikov"}
LEARNED = {"gaussian", "triangular", "epanechnikov"}
POSITIONS = {
    None: lambda: None,
    "rotary": positions.Rotary,
    "alibi": positions.ALiBi,
    "kerple": lambda: positions.Kerple("power"),
    "t5": lambda: positions.T5Bias(8, 6),
    "shaw": lambda: positions.Shaw(2),
    "grid_bias": lambda: positions.GridBias((3, 4), (2, 3), num_prefix_tokens=1),
    "transformer_xl": positions.TransformerXL,
    "disentangled": lambda: positions.Disentangled(positions.DistanceEmbedding(9, 8, 1e-3)),
}
# Masks that depend on the batch size are passed in the call.
RULES = [name for name in mask_cases.NUMBERS if name not in ("prefixes", "lengths", "nested")]
OF_THE_CALL = ["nothing", "causal", "padding", "pairs", "pairs of a batch", "pairs of heads", "all"]
STEP = 1e-4


@dataclass
class Configuration:
    """One configuration of attention; 0 `heads` means `Attention`."""

    seed: int
    score: str = "scaled_dot"
    normalizer: str = "softmax"
    rule: str | None = None
    of_the_call: str = "nothing"
    position: str | None = None
    heads: int = 1
    groups: int = 1
    batch: int = 2
    lengths: tuple = (5, 7)
    soft_cap: float | None = None
    use_sink: bool = False
    options: dict = field(default_factory=dict)


def drawn(seed):
    """Returns the configuration of a seed."""
    rng = np.random.default_rng(seed)

    def one_of(things):
        things = list(things)
        return things[rng.integers(len(things))]

    score, normalizer = one_of(scores.names()), one_of(normalizers.names())
    heads = one_of([0, 1, 2, 4])
    options = {}
    if score in LEARNED:
        options["learned_width"] = one_of([False, True])
    if score == "cosine":
        options["learned_sharpness"] = one_of([False, True])
    if score == "additive":
        options = {"units": one_of([None, 1, 7]), "normalized": one_of([False, True])}
    if score == "random_synthesizer":
        options["rank"] = one_of([None, 1, 3])
    return Configuration(
        seed,
        score,
        normalizer,
        rule=one_of([None, *RULES]),
        of_the_call=one_of(OF_THE_CALL),
        # Scores with negative biases may sum to nearly 0, and weights are divided by this sum.
        position=one_of(POSITIONS if normalizer != "sum" else [None]),
        heads=heads,
        groups=one_of([groups for groups in (1, 2, 4) if groups <= heads]) if heads else 0,
        batch=one_of([1, 2, 3]),
        lengths=(one_of(LENGTHS), one_of(LENGTHS)),
        soft_cap=one_of([None, None, 3.0]),
        use_sink=one_of([normalizer == "softmax_one", False]),
        options=options,
    )


def of_one_head():
    """Yields configurations with one head that cover every option."""
    yield Configuration(99, batch=4)  # with every implementation
    rules = itertools.cycle([None, *RULES])
    calls, places = itertools.cycle(OF_THE_CALL), itertools.cycle(POSITIONS)
    others = itertools.cycle(name for name in normalizers.names() if name != "sum")
    for seed, (score, batch) in enumerate(itertools.product(scores.names(), BATCHES)):
        # Those with softmax and with sum run in tiles, too.
        normalizer = {1: "softmax", 2: "sum", 4: next(others)}[batch]
        yield Configuration(
            seed,
            score,
            normalizer,
            next(rules),
            next(calls),
            None if normalizer == "sum" else next(places),
            batch=batch,
            use_sink=normalizer == "softmax_one",
        )


def check(configuration):
    """Compares contexts and gradients of all implementations with the float64 equations."""
    rng = np.random.default_rng([configuration.seed, 1])
    query_length, key_length = configuration.lengths
    heads = max(configuration.heads, 1)
    is_sum = configuration.normalizer == "sum"

    def numbers(*shape):
        # Positive scores, so that sums of scores are far from 0.
        x = 0.3 + 0.7 * rng.random(shape) if is_sum else rng.normal(size=shape)
        return x.astype("float32")

    query = numbers(configuration.batch, query_length, SIZE)
    value = numbers(configuration.batch, key_length, SIZE)
    of_the_call = _masks_of_the_call(configuration, rng)
    visible = oracle.visible_pairs(
        configuration.batch, heads, query_length, key_length, **of_the_call
    )
    if configuration.rule is not None:
        stand = np.arange(key_length - query_length, key_length), np.arange(key_length)
        rule = mask_cases.NUMBERS[configuration.rule][1]
        visible = visible & mask_cases.brute_force(rule, *stand, configuration.batch, heads)

    reference = _layer(configuration, "reference")
    reference.build(query.shape, value.shape)
    for weight in reference.trainable_weights:
        weight.assign(0.5 * numbers(*weight.shape))
    direction = rng.normal(size=(configuration.batch, query_length, SIZE)).astype("float32")

    attend = oracle.multi_head_attention if configuration.heads else oracle.attention

    def equations(query, value):
        return attend(reference, query, value, visible=visible)[0]

    inputs = query.astype("float64"), value.astype("float64")
    expected = equations(*inputs)
    sides = _sides(reference, lambda *x: (equations(*x) * direction).sum(), *inputs, rng)
    of_reference = None
    for implementation in _implementations(configuration):
        layer = _layer(configuration, implementation)
        layer.build(query.shape, value.shape)
        layer.set_weights(reference.get_weights())
        found = oracle.float64(layer(query, value, **of_the_call))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=5e-5, err_msg=implementation)
        direct = ops.convert_to_tensor(direction)
        # Distances of nearly equal vectors subtract large numbers; each form rounds differently.
        by_inputs, by_weights = layer_gradients(
            layer, query, value, tolerance=3e-4, direction=direct, **of_the_call
        )
        gradients = [oracle.float64(each) for each in [*by_inputs, *by_weights.values()]]
        if of_reference is None:
            of_reference = gradients
            _assert_between(gradients, sides)
        for gradient, wanted in zip(gradients, of_reference, strict=True):
            np.testing.assert_allclose(
                gradient, wanted, rtol=1e-3, atol=1e-4, err_msg=f"gradient of {implementation}"
            )


def _implementations(configuration):
    yield "reference"
    if configuration.normalizer in ("softmax", "softmax_one"):
        yield "blocked"
    if configuration.normalizer in ("softmax", "softmax_one", "sum"):
        yield "chunked"
    is_plain = configuration.position in (None, "rotary") and configuration.soft_cap is None
    if (configuration.score, configuration.normalizer) == ("scaled_dot", "softmax") and is_plain:
        yield "fused"


def _layer(configuration, implementation):
    options = dict(configuration.options)
    if configuration.score in WITH_MAX_LENGTH:
        options["max_length"] = LONGEST
    if configuration.score in WITH_WIDTH:
        options["width"] = 3.0
    arguments = {
        "score": type(scores.get(configuration.score))(**options),
        "normalizer": configuration.normalizer,
        "mask": configuration.rule and mask_cases.NUMBERS[configuration.rule][0],
        "position": POSITIONS[configuration.position](),
        "soft_cap": configuration.soft_cap,
        "use_sink": configuration.use_sink,
        "implementation": implementation,
    }
    if not configuration.heads:
        return Attention(**arguments)
    groups = configuration.groups
    return MultiHeadAttention(
        configuration.heads, 4, value_dim=3, num_key_value_heads=groups, **arguments
    )


def _masks_of_the_call(configuration, rng):
    batch, (queries, keys) = configuration.batch, configuration.lengths

    def some(*shape):
        return rng.random(shape) < 0.7

    causal = {"use_causal_mask": True}
    padding = {"query_mask": some(batch, queries), "value_mask": some(batch, keys)}
    of_heads = {"attention_mask": some(batch, max(configuration.heads, 1), queries, keys)}
    return {
        "nothing": {},
        "causal": causal,
        "padding": padding,
        "pairs": {"attention_mask": some(queries, keys)},
        "pairs of a batch": {"attention_mask": some(batch, queries, keys)},
        "pairs of heads": of_heads,
        "all": causal | padding | of_heads,
    }[configuration.of_the_call]


def _assert_between(gradients, sides):
    """Checks that the derivative is between both one-sided slopes, on a curve or near a kink."""
    differences, slopes = [], []
    for directions, growth in sides:
        slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
        differences.append(growth - slope)
        slopes.append(slope)
    allowance = 2e-3 * (1 + abs(slopes[0]))
    assert min(differences) <= allowance, (slopes, differences)
    assert max(differences) >= -allowance, (slopes, differences)


def _sides(layer, total, query, value, rng):
    """Moves inputs and weights by a random step in both directions.

    Returns:
        For each side, the direction and the slope of the total along it.
    """
    weights = layer.trainable_variables
    inputs, numbers = [query, value], [oracle.float64(weight) for weight in weights]
    steps = [STEP * rng.normal(size=x.shape) for x in [*inputs, *numbers]]
    middle, sides = total(*inputs), []
    for sign in (1, -1):
        moved = [x + sign * step for x, step in zip([*inputs, *numbers], steps, strict=True)]
        for place, weight in enumerate(weights, start=2):
            weight.assign(moved[place])
            moved[place] = oracle.float64(weight)  # rounded
        growth = (total(*moved[:2]) - middle) / (sign * STEP)
        pairs = zip(moved, [*inputs, *numbers], strict=True)
        sides.append(([(new - old) / (sign * STEP) for new, old in pairs], growth))
    for weight, number in zip(weights, numbers, strict=True):
        weight.assign(number)
    return sides


def check_alone(layer):
    """Compares a batch with each example on its own, which needs no broadcasting."""
    rng = np.random.default_rng(0)
    x, direction = rng.normal(size=(2, 4, 9, SIZE)).astype("float32")

    def outputs(x, direction):
        (of_query, of_value), _ = layer_gradients(
            layer, x, x, direction=ops.convert_to_tensor(direction)
        )
        return [oracle.float64(each) for each in (layer(x, x), of_query, of_value)]

    layer.build(x.shape, x.shape)
    whole = outputs(x, direction)
    alone = [outputs(x[i : i + 1], direction[i : i + 1]) for i in range(4)]
    for found, parts in zip(whole, zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(found, np.concatenate(parts), rtol=1e-4, atol=1e-5)


def one_head(step):
    """Checks every `step`-th configuration with one head, and the approximations."""
    for configuration in itertools.islice(of_one_head(), 0, None, step):
        print(configuration, flush=True)
        with small_tiles():
            check(configuration)
    for layer in (
        LinearAttention(1, 4),
        PerformerAttention(1, 4),
        PerformerAttention(1, 4, causal=True),
        LinformerAttention(1, 4, projected_length=3, max_length=16),
        LongformerAttention(1, 4, window=4),
        NystromAttention(1, 4, num_landmarks=4),
        NystromAttention(1, 4, num_landmarks=4, kernel_size=3),
        BlockSelectionAttention(1, 4, block_size=3, num_blocks=2),
        CrossCovarianceAttention(1, 4),
        ReformerAttention(1, 4, bucket_size=4, num_hashes=1),
        ReformerAttention(1, 4, bucket_size=4, num_hashes=3),
        GatedDeltaAttention(1, 4),
        RetentionAttention(1, 4),
        GatedLinearAttention(1, 4),
        KimiDeltaAttention(1, 4),
    ):
        print(type(layer).__name__, flush=True)
        check_alone(layer)
    print("one head is right everywhere")


def check_random(first, last):
    """Checks the random configurations of these seeds."""
    for seed in range(first, last):
        configuration = drawn(seed)
        try:
            with small_tiles():
                check(configuration)
        except Exception as error:
            error.add_note(f"of {configuration}, drawn({seed})")
            raise


def in_every_form(first, last):
    """Like `check_random`, with gradients in every form."""
    with mock.patch("tests.attention.gradients.IN_EVERY_FORM", True):
        check_random(first, last)
    print(f"{last - first} configurations are right in every form")


@contextlib.contextmanager
def small_tiles():
    """Tiles of 4 × 4 and blocks of 4, so that these lengths give several, few of them full."""
    tiles_of_4 = mock.patch.multiple(tiles, LONGEST_TILE=4, SHORTEST_TILE=4)
    blocks_of_4 = mock.patch.multiple(blocked, SHORTEST_BLOCK=4, KEYS_A_STEP=2)
    with tiles_of_4, blocks_of_4:
        yield


if __name__ == "__main__":
    command, *numbers = sys.argv[1:]
    {"one_head": one_head, "in_every_form": in_every_form}[command](*map(int, numbers))
