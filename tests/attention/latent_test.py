"""LatentAttention against its equations in float64 NumPy, transformers, and itself in steps."""

from unittest import mock

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import AttentionCell, AttentionRNN, LatentAttention, Memory, masks, positions
from keras_attention._stacked_heads import StackedMask, stacked, unstacked
from tests.attention import mask_cases, oracle, position_equations
from tests.attention.compiled import compiled
from tests.attention.gradients import layer_gradients

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 2, 5, 7, 6
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape):
    return RNG.random(shape) < 0.7


def make(**arguments):
    """A built layer whose weights are all random."""
    arguments = {"value_dim": 3, "latent_dim": 8, "rotary_dim": 2, **arguments}
    layer = LatentAttention(HEADS, 4, **arguments)
    layer.build((None, None, SIZE), (None, None, SIZE))
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))
    return layer


def forming_heads(is_forming):
    """Makes layers form the keys and values of their heads, or attend to latents."""
    return mock.patch.object(LatentAttention, "_forms_heads", return_value=is_forming)


def rms_norm(layer, x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * oracle.weight(layer, "scale")


def expected_attention(layer, query, value, **of_the_call):
    """Returns output and weights, head by head, from keys and values as the paper defines them."""
    query, value = query.astype("float64"), value.astype("float64")
    lengths = query.shape[1], value.shape[1]
    visible = oracle.visible_pairs(len(query), HEADS, *lengths, **of_the_call)
    places = np.arange(lengths[1] - lengths[0], lengths[1]), np.arange(lengths[1])

    latent = oracle._dense(layer.latent_projection, value)
    latent, of_keys = np.split(latent, [layer.latent_dim], axis=-1)
    latent = rms_norm(layer.latent_norm, latent)
    of_keys = position_equations.rotary(of_keys, places[1])
    if layer.query_latent_dim is not None:
        query = oracle._dense(layer.query_latent_projection, query)
        query = rms_norm(layer.query_latent_norm, query)
    queries = oracle._heads(layer.query_projection, query, HEADS)

    weights, contexts = [], []
    for head in range(HEADS):
        of_content, of_place = np.split(queries[head], [layer.key_dim], axis=-1)
        of_place = position_equations.rotary(of_place, places[0])
        keys = latent @ oracle.float64(layer.key_kernel)[head]
        logits = of_content @ keys.swapaxes(1, 2) + of_place @ of_keys.swapaxes(1, 2)
        logits = logits / np.sqrt(layer.key_dim + layer.rotary_dim)
        weights.append(oracle.softmax(logits, visible[:, head]))
        contexts.append(weights[-1] @ latent @ oracle.float64(layer.value_kernel)[head])
    output = oracle._dense(layer.output_projection, np.concatenate(contexts, axis=-1))
    return output, np.stack(weights, axis=1)


PAIRS = {"attention_mask": some(BATCH, HEADS, QUERIES, KEYS)}
PADDING = {"query_mask": some(BATCH, QUERIES), "value_mask": some(BATCH, KEYS)}
MASKS = {
    "nothing": {},
    "causal": {"use_causal_mask": True},
    "padding": PADDING,
    "pairs of heads": PAIRS,
    "nobody sees anything": {"value_mask": np.zeros((BATCH, KEYS), bool)},
    "everything at once": {
        **PAIRS,
        **PADDING,
        "key_mask": some(BATCH, KEYS),
        "use_causal_mask": True,
    },
}


@pytest.mark.few(4)
@pytest.mark.pairwise
@pytest.mark.parametrize("options", [{}, {"query_latent_dim": 5}, {"use_bias": False}])
@pytest.mark.parametrize("is_forming", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_equals_the_equations_under_every_mask(name, is_forming, options):
    layer, inputs = make(**options), (random(BATCH, QUERIES, SIZE), random(BATCH, KEYS, SIZE))
    with forming_heads(is_forming):
        output, weights = layer(*inputs, return_attention_scores=True, **MASKS[name])
    expected = expected_attention(layer, *inputs, **MASKS[name])
    np.testing.assert_allclose(oracle.float64(weights), expected[1], atol=1e-5)
    np.testing.assert_allclose(oracle.float64(output), expected[0], atol=2e-5)


def in_both_ways(find):
    """Returns what a function finds with latents, and with heads, as float64 arrays."""
    found = []
    for is_forming in (False, True):
        with forming_heads(is_forming):
            found.append([oracle.float64(each) for each in keras.tree.flatten(find())])
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("implementation", ["reference", "blocked", "chunked", "fused"])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("lengths", [(QUERIES, KEYS), (1, KEYS), (KEYS, 1), (150, 150)])
def test_both_ways_have_the_same_outputs_and_gradients(implementation, name, lengths):
    queries, keys = lengths
    layer = make(implementation=implementation, mask=masks.SlidingWindow(4, 2))
    query, value = random(BATCH, queries, SIZE), random(BATCH, keys, SIZE)
    direction = ops.convert_to_tensor(random(BATCH, queries, SIZE))
    given = dict(MASKS[name])
    shapes = {"query_mask": (BATCH, queries), "value_mask": (BATCH, keys)}
    shapes |= {"key_mask": (BATCH, keys), "attention_mask": (BATCH, HEADS, queries, keys)}
    given |= {key: some(*shapes[key]) for key in given if key in shapes}

    def find():
        return layer(query, value, **given), layer_gradients(
            layer, query, value, direction=direction, tolerance=1e-4, **given
        )

    for found, expected in zip(*in_both_ways(find), strict=True):
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found, expected, atol=3e-5 * scale)


@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_both_ways_are_equal_in_half_precision_up_to_its_rounding(dtype):
    layer, x = make(dtype=dtype), random(BATCH, KEYS, SIZE)
    output = layer(x, x, use_causal_mask=True)
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    found, expected = in_both_ways(lambda: layer(x, x, use_causal_mask=True))
    rounding = {"float16": 2e-3, "bfloat16": 2e-2}[layer.compute_dtype]
    difference = np.abs(found[0] - expected[0])
    assert difference.mean() < rounding * np.abs(expected[0]).max()


def test_returned_weights_are_those_before_dropout():
    layer, x = make(dropout=0.5), random(BATCH, KEYS, SIZE)
    output, weights = map(oracle.float64, layer(x, x, return_attention_scores=True))
    for dropped, same in in_both_ways(
        lambda: layer(x, x, return_attention_scores=True, training=True)
    ):
        np.testing.assert_allclose(same, weights, atol=1e-5)
        assert np.abs(dropped - output).max() > 0.01


# Lengths of queries and keys (`None` if unknown), and whether forming heads is cheaper. It takes
# 8 · (4 + 3) = 56 multiplications per key; it saves 56 per query and 2 · (8 + 2) - 4 - 2 - 3 = 11
# per pair.
@pytest.mark.parametrize(
    ("lengths", "is_forming"),
    [
        ((1, 1), True),
        ((1, 2), False),
        ((4, 100), False),
        ((6, 10_000), True),
        ((5, None), False),
        ((6, None), True),
        ((None, None), True),
        ((None, 7), True),
        ((0, 0), False),
    ],
)
def test_the_cheaper_way_is_taken(lengths, is_forming):
    assert make()._forms_heads(*lengths) is is_forming


def test_latents_that_are_larger_than_heads_are_never_formed_for_a_step():
    assert not make(latent_dim=64)._forms_heads(1, 1000)


def test_heads_that_are_larger_than_latents_are_never_formed():
    layer = LatentAttention(2, 64, latent_dim=8, rotary_dim=2)
    assert not any(layer._forms_heads(*lengths) for lengths in [(1, 9), (99, 99), (None, None)])


def test_the_implementation_that_runs_is_known():
    shape = (BATCH, KEYS, SIZE)
    assert make().choose_implementation(shape, shape) == "blocked"
    assert make(implementation="chunked").choose_implementation(shape, shape) == "chunked"
    window, long = make(mask=masks.SlidingWindow(left=255, right=0)), (1, 8192, SIZE)
    assert window.choose_implementation(long, long) == "blocked"
    assert make().choose_implementation(long, long) == "chunked"


@pytest.mark.parametrize(
    "options", [{}, {"query_latent_dim": 5, "normalizer": "softmax_one", "soft_cap": 5.0}]
)
def test_steps_with_a_cache_of_latents_equal_the_whole(options):
    layer = make(mask="causal", **options)
    x = random(BATCH, KEYS, SIZE)
    expected, expected_weights = map(oracle.float64, layer(x, x, return_attention_scores=True))
    cache = layer.prepare(ops.zeros(x.shape))
    first = 0
    for length in (3, 1, 1, 2):
        new = x[:, first : first + length]
        cache = layer.extend(cache, new, first)
        output, weights = layer.attend(new, cache, start=first)
        rows = slice(first, first + length)
        np.testing.assert_allclose(oracle.float64(output), expected[:, rows], atol=2e-5)
        np.testing.assert_allclose(oracle.float64(weights), expected_weights[:, :, rows], atol=1e-5)
        first += length
    numbers = sum(np.prod(part.shape) for part in cache[:2])
    assert numbers == BATCH * KEYS * (layer.latent_dim + layer.rotary_dim)


@pytest.mark.full
def test_compiled_steps_equal_the_whole():
    layer, x = make(mask="causal"), random(BATCH, KEYS, SIZE)
    expected = oracle.float64(layer(x, x))

    def step(key, value, new, start):
        cache = layer.extend(Memory(key, value, None), new, start)
        output, _ = layer.attend(new, cache, start=start, return_attention_scores=False)
        return output, cache.key, cache.value

    step = compiled(step)
    key, value, _ = layer.prepare(ops.zeros(x.shape))
    for place in range(KEYS):
        output, key, value = step(key, value, x[:, place : place + 1], np.int32(place))
        np.testing.assert_allclose(oracle.float64(output)[:, 0], expected[:, place], atol=2e-5)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", mask_cases.NUMBERS)
def test_stacked_mask_equals_that_of_each_head(name):
    mask, _ = mask_cases.NUMBERS[name]
    batch, heads = mask_cases.BATCH, mask_cases.HEADS
    queries, keys = masks.positions(mask_cases.QUERIES, mask_cases.KEYS)
    expected = np.broadcast_to(
        mask.tile(queries, keys), (batch, heads, mask_cases.QUERIES, mask_cases.KEYS)
    )
    places = int(queries[0]) * heads + np.arange(heads * mask_cases.QUERIES, dtype="int32")
    tile = StackedMask(mask, heads).tile(ops.convert_to_tensor(places), keys)
    shape = batch, 1, heads * mask_cases.QUERIES, mask_cases.KEYS
    found = unstacked(ops.convert_to_tensor(np.broadcast_to(tile, shape)[:, 0]), heads)
    np.testing.assert_array_equal(ops.convert_to_numpy(found), expected)


def test_stacking_and_its_inverse():
    x = random(2, 3, 4, 5)
    rows = stacked(ops.convert_to_tensor(x))
    np.testing.assert_array_equal(ops.convert_to_numpy(rows)[:, 1 * 3 + 2], x[:, 2, 1])
    np.testing.assert_array_equal(ops.convert_to_numpy(unstacked(rows, 3)), x)


def test_matrices_of_heads_are_regularized_and_constrained_separately():
    layer = make(
        kernel_regularizer=keras.regularizers.OrthogonalRegularizer(mode="columns"),
        kernel_constraint="unit_norm",
        use_bias=False,
    )
    columns = oracle.float64(layer.key_kernel)
    expected = 0.0
    for kernel in columns:
        unit = kernel / np.linalg.norm(kernel, axis=0)
        expected += 0.01 * np.abs(np.triu(unit.T @ unit, 1)).sum() / (4 * 3 / 2)
    found = layer.key_kernel.regularizer(layer.key_kernel)
    np.testing.assert_allclose(float(found), expected, rtol=1e-4)
    unit = oracle.float64(layer.key_kernel.constraint(layer.key_kernel.value))
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1.0, atol=1e-4)


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_works_step_by_step_inside_of_a_recurrent_decoder(order):
    cell = AttentionCell(
        keras.layers.GRUCell(5), LatentAttention(2, 4, latent_dim=6, rotary_dim=2), order=order
    )
    mask = np.arange(6) < np.array([[6], [4]])
    _, weights = AttentionRNN(cell)(
        random(2, 3, 4), random(2, 6, 7), memory_mask=mask, return_attention_scores=True
    )
    assert tuple(weights.shape) == (2, 2, 3, 6)
    np.testing.assert_array_equal(oracle.float64(weights)[1, ..., 4:], 0.0)
    np.testing.assert_allclose(oracle.float64(weights).sum(-1), 1.0, atol=1e-5)


def deepseek(version, **options):
    """Returns the attention of a DeepSeek model in PyTorch, and a causal function of its inputs."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    models = getattr(transformers.models, f"deepseek_{version}")
    models = getattr(models, f"modeling_deepseek_{version}")
    kind = f"Deepseek{version.upper()}"
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=16,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=6,
        v_head_dim=5,
        rope_parameters={"rope_theta": 500.0, "rope_type": "default"},
        attn_implementation="eager",
        **options,
    )
    attention = getattr(models, f"{kind}Attention")(config, 0).eval()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, mean=0.2, std=0.4)
    rotary = getattr(models, f"{kind}RotaryEmbedding")(config)

    def run(x):
        x, length = torch.tensor(x), x.shape[1]
        mask = torch.full((length, length), -torch.inf).triu(1)[None, None]
        places = torch.arange(length)[None]
        with torch.no_grad():
            found = attention(x, position_embeddings=rotary(x, places), attention_mask=mask)
        return [each.numpy() for each in found]

    return {name: each.detach().numpy() for name, each in attention.named_parameters()}, run


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("v2", {"q_lora_rank": None}),
        ("v3", {"q_lora_rank": 7, "attention_bias": True}),
        ("v3", {"q_lora_rank": 7, "rope_interleave": False}),
    ],
)
def test_equals_deepseek(version, options):
    weights, run = deepseek(version, **options)
    pairs = "neighbours" if options.get("rope_interleave", True) else "halves"
    layer = LatentAttention(
        HEADS,
        6,
        5,
        use_bias=["query_latent", "latent", "output"] if "attention_bias" in options else False,
        latent_dim=8,
        rotary_dim=4,
        query_latent_dim=options["q_lora_rank"],
        position=positions.Rotary(500, pairs=pairs),
        mask="causal",
    )
    layer.build((None, None, 16), (None, None, 16))
    up = weights.pop("kv_b_proj.weight").reshape(HEADS, 6 + 5, 8).swapaxes(1, 2)
    layer.key_kernel.assign(up[..., :6])
    layer.value_kernel.assign(up[..., 6:])
    names = {
        "q_proj": "query_projection",
        "q_a_proj": "query_latent_projection",
        "q_a_layernorm": "query_latent_norm",
        "q_b_proj": "query_projection",
        "kv_a_proj_with_mqa": "latent_projection",
        "kv_a_layernorm": "latent_norm",
        "o_proj": "output_projection",
    }
    for name, array in weights.items():
        part, _, kind = name.rpartition(".")
        target = getattr(layer, names[part])
        if kind == "bias":
            target.bias.assign(array)
        else:
            (target.scale if array.ndim == 1 else target.kernel).assign(array.T)
    x = random(BATCH, KEYS, 16)
    expected = run(x)
    for is_forming in (True, False):
        with forming_heads(is_forming):
            found = layer(x, x, return_attention_scores=True)
        for each, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(oracle.float64(each), wanted, atol=3e-5)
