"""Options of blocks, and layers, against models of transformers that have them, in PyTorch."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    DecoderBlock,
    DifferentialAttention,
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
    TalkingHeadsAttention,
    masks,
    positions,
)
from tests.attention import oracle

BATCH, LENGTH, SIZE = 2, 7, 16
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, SIZE)).astype("float32")

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")


def block_of(layer, names, config=None, **arguments):
    """Returns a causal block with the weights of a layer of PyTorch.

    Args:
        layer: A `torch.nn.Module`. Its weights are drawn again.
        names: Dictionary that maps paths of weights in the block to those of modules.
    """
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    block = EncoderBlock(4, 24, normalize="pre", mask=arguments.pop("mask", "causal"), **arguments)
    block.build((None, None, SIZE))
    state = {name: each.detach().numpy() for name, each in layer.state_dict().items()}
    given = {}
    for weight in block.weights:
        part, _, name = weight.path.removeprefix(f"{block.name}/").rpartition("/")
        their = "bias" if name in ("bias", "beta") else "weight"
        array = state.pop(f"{names[part]}.{their}")
        given[weight.path] = array.T if name == "kernel" else array
    assert not state
    for weight in block.weights:
        weight.assign(given[weight.path])
    return block


LLAMA = {
    "attention_norm": "input_layernorm",
    "attention/query": "self_attn.q_proj",
    "attention/key": "self_attn.k_proj",
    "attention/value": "self_attn.v_proj",
    "attention/output": "self_attn.o_proj",
    "feed_forward_norm": "post_attention_layernorm",
    "feed_forward/gate": "mlp.gate_proj",
    "feed_forward/inner": "mlp.up_proj",
    "feed_forward/outer": "mlp.down_proj",
}
SCALINGS = {
    "default": (None, {}),
    "linear": (positions.LinearScaling(factor=3.0), {"factor": 3.0}),
    "dynamic": (positions.DynamicScaling(factor=2.0, original_length=4), {"factor": 2.0}),
    "yarn": (
        positions.YaRN(factor=4.0, original_length=32, fast_rotations=8, slow_rotations=0.5),
        {
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 8,
            "beta_slow": 0.5,
        },
    ),
    "longrope": (
        positions.LongRoPE(factor=4.0, original_length=4, short=[1, 2], long=[2, 9]),
        {
            "factor": 4.0,
            "original_max_position_embeddings": 4,
            "short_factor": [1, 2],
            "long_factor": [2, 9],
        },
    ),
    "llama3": (
        positions.Llama3Scaling(factor=8.0, original_length=64, low=1.0, high=4.0),
        {
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    ),
}


def llama_layer(kind, **options):
    """Returns a layer of Llama or a similar model, and a function that runs it."""
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=SIZE,
        intermediate_size=24,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=1,
        vocab_size=8,
        rms_norm_eps=1e-5,
        attn_implementation="eager",
        **options,
    )
    model = getattr(transformers, f"{kind}Model")(config).eval()
    model.norm = torch.nn.Identity()

    def run(x):
        with torch.no_grad():
            return model(inputs_embeds=torch.tensor(x)).last_hidden_state.numpy()

    return model.layers[0], run


def as_llama(**arguments):
    return {
        "norm": "rms",
        "gated": True,
        "activation": "silu",
        "use_bias": False,
        "num_key_value_heads": 2,
    } | arguments


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", SCALINGS)
def test_block_equals_llama_with_every_scaling(kind):
    scaling, options = SCALINGS[kind]
    options = {"rope_theta": 500.0, "rope_type": kind, **options}
    layer, run = llama_layer(
        "Llama", rope_parameters=options, max_position_embeddings=4 if kind == "dynamic" else 128
    )
    rotary = positions.Rotary(500, pairs="halves", scaling=scaling)
    block = block_of(layer, LLAMA, **as_llama(position=rotary))
    np.testing.assert_allclose(oracle.float64(block(X)), run(X), atol=2e-5)
    if kind not in ("dynamic", "longrope"):  # whose frequencies change with the length
        np.testing.assert_allclose(in_steps(block), oracle.float64(block(X)), atol=2e-5)


def test_block_equals_mistral_with_a_sliding_window():
    layer, run = llama_layer("Mistral", sliding_window=3)
    window = masks.SlidingWindow(left=2, right=0)
    rotary = positions.Rotary(pairs="halves")
    block = block_of(layer, LLAMA, **as_llama(position=rotary, mask=window))
    np.testing.assert_allclose(oracle.float64(block(X)), run(X), atol=2e-5)
    np.testing.assert_allclose(in_steps(block), oracle.float64(block(X)), atol=2e-5)


def in_steps(block):
    cache, found = block.start(BATCH, LENGTH), []
    for first, last in [(0, 3), (3, 4), (4, 7)]:
        x, cache = block.step(X[:, first:last], cache, first)
        found.append(oracle.float64(x))
    return np.concatenate(found, axis=1)


@pytest.mark.few(1)
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
def test_grouped_heads_and_implementation_reach_both_attentions_of_a_decoder(implementation):
    arguments = {"num_key_value_heads": 1, "implementation": implementation, "norm": "rms"}
    block = DecoderBlock(4, 24, position=positions.Rotary(pairs="halves"), **arguments)
    encoded = X[:, ::-1]
    whole = oracle.float64(block(X, encoded))
    for attention in (block.self_attention, block.cross_attention):
        assert attention.attention.implementation == implementation
        assert attention.key_projection.units == SIZE // 4
    cache, memory = block.start(encoded, LENGTH)
    for place in range(LENGTH):
        x, cache = block.step(X[:, place : place + 1], cache, memory, place)
        np.testing.assert_allclose(oracle.float64(x)[:, 0], whole[:, place], atol=2e-5)


def test_normalizer_reaches_attention():
    block = EncoderBlock(2, 8, normalizer="sparsemax")
    _, weights = block(10 * X, return_attention_scores=True)
    assert (oracle.float64(weights) == 0).any()


@pytest.mark.parametrize("part", ["attention", "feed_forward"])
def test_biases_go_with_the_parts_that_are_named(part):
    block = EncoderBlock(2, 8, use_bias=(part,))
    block.build((None, None, SIZE))
    found = {each.path.split("/")[1] for each in block.weights if each.name == "bias"}
    assert found == {part}
    assert EncoderBlock.from_config(block.get_config()).use_bias == [part]


def test_some_layers_of_a_feed_forward_network_have_biases():
    block = EncoderBlock(2, 8, gated=True, use_bias={"outer", "query"})
    block.build((None, None, SIZE))
    found = {each.path.split("/")[-2] for each in block.weights if each.name == "bias"}
    assert found == {"query", "outer"}
    layer = FeedForward(8, gated=True, use_bias=["gate"])
    layer.build((None, SIZE))
    assert [each.path for each in layer.weights if each.name == "bias"] == [layer.gate.bias.path]
    again = FeedForward.from_config(layer.get_config())
    again.build((None, SIZE))
    assert again.count_params() == layer.count_params() == 3 * 8 * SIZE + 8
    with pytest.raises(ValueError, match="FeedForward must be True, False, or a collection of inn"):
        FeedForward(8, use_bias=["query"])


ACTIVATIONS = {
    "quick_gelu": "quick_gelu",
    "tanh_gelu": "gelu_new",
    "gelu": "gelu",
    "silu": "silu",
}


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_feed_forward_equals_torch(name, gated):
    layer = FeedForward(12, name, gated=gated)
    layer(X)
    assert layer.get_config()["activation"] == name
    activation = transformers.activations.ACT2FN[ACTIVATIONS[name]]
    kernels = {
        part: torch.tensor(oracle.weight(getattr(layer, part), "kernel"))
        for part in ("inner", "outer", *(["gate"] if gated else []))
    }
    x = torch.tensor(X).double()
    hidden = activation(x @ kernels["gate" if gated else "inner"])
    hidden = hidden * (x @ kernels["inner"]) if gated else hidden
    found = oracle.float64(layer(X))
    np.testing.assert_allclose(found, (hidden @ kernels["outer"]).numpy(), atol=1e-5)


@pytest.mark.parametrize("size", [7, 8])
def test_sinusoids_in_halves_are_those_of_marian(size):
    marian = transformers.models.marian.modeling_marian
    table = marian.MarianSinusoidalPositionalEmbedding(20, size)
    expected = table.create_weight().numpy() if hasattr(table, "create_weight") else table.weight
    layer = positions.SinusoidalPosition(layout="halves")
    found = oracle.float64(layer(np.zeros((1, 20, size), "float32")))[0]
    np.testing.assert_allclose(found, np.asarray(expected), atol=2e-6)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_halves_are_neighbours_in_another_order(fraction):
    x = RNG.normal(size=(2, 5, 8)).astype("float32")
    places = np.arange(3, 8, dtype="int32")
    rotated = int(8 * fraction)
    order = np.arange(8)
    order[:rotated] = order[:rotated].reshape(2, -1).T.ravel()  # halves become adjacent pairs
    found = positions.Rotary(fraction=fraction, pairs="halves").rotate(ops.array(x), places)
    expected = positions.Rotary(fraction=fraction).rotate(ops.array(x[..., order]), places)
    np.testing.assert_allclose(oracle.float64(found)[..., order], oracle.float64(expected))


@pytest.mark.parametrize(
    "scaling", [each for each, _ in SCALINGS.values() if each is not None], ids=repr
)
def test_scaling_survives_a_config(scaling):
    rotary = positions.Rotary(scaling=scaling, pairs="halves")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(rotary))
    assert again.scaling == scaling
    assert again.pairs == "halves"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EncoderBlock(2, 8, norm="batch"), "`norm` of EncoderBlock must be one of"),
        (lambda: EncoderBlock(2, 8, use_bias=["keys"]), "`use_bias` of EncoderBlock .*attention"),
        (lambda: EncoderBlock(2, 8, implementation="fast"), "fast"),
        (lambda: EncoderBlock(2, 8, num_key_value_heads=0), "positive integer or None"),
        (lambda: positions.Rotary(pairs="thirds"), "`pairs` of Rotary .*neighbours, halves"),
        (lambda: positions.Rotary(scaling="yarn"), "`scaling` of Rotary .*LinearScaling"),
        (lambda: positions.LinearScaling(factor=0.5), "`factor` of LinearScaling .*at least 1"),
        (lambda: positions.YaRN(factor=2, original_length=0), "`original_length` of YaRN"),
        (lambda: positions.YaRN(factor=2, original_length=8, slow_rotations=0), "above 0"),
        (lambda: positions.Llama3Scaling(factor=2, original_length=8, high=1), "above low=1.0"),
        (lambda: positions.SinusoidalPosition(layout="thirds"), "`layout` of Sinusoidal"),
    ],
)
def test_what_cannot_be_is_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("groups", [2, 4])
def test_differential_attention_equals_diff_llama(groups):
    heads, size = 4, 32
    theirs = transformers.models.diffllama.modeling_diffllama
    config = transformers.DiffLlamaConfig(
        hidden_size=size,
        num_attention_heads=2 * heads,
        num_key_value_heads=2 * groups,
        attention_bias=True,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    their = theirs.DiffLlamaAttention(config, layer_idx=3).eval()
    for parameter in their.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    layer = DifferentialAttention(
        heads,
        4,
        num_key_value_heads=groups,
        position=positions.Rotary(10000, pairs="halves"),
        lambda_init=0.8 - 0.6 * np.exp(-0.3 * 3),
    )
    layer.build((None, None, size), (None, None, size))
    # They order heads by map first, and the halves of values before the heads.
    maps_first = {"q": (2, groups, heads // groups, 4), "k": (2, groups, 4), "v": (2, groups, 4)}
    names = {"q": "query", "k": "key", "v": "value", "o": "output"}
    for short, name in names.items():
        projection, given = getattr(layer, f"{name}_projection"), getattr(their, f"{short}_proj")
        for weight, array in ((projection.kernel, given.weight), (projection.bias, given.bias)):
            array = array.detach().numpy().T
            if short in maps_first:
                front, axes = array.shape[:-1], maps_first[short]
                array = array.reshape(*front, *axes)
                array = np.swapaxes(array, len(front), len(front) + 1).reshape(*front, -1)
            weight.assign(array)
    for short, weight in zip(("q1", "k1", "q2", "k2"), layer.lambdas, strict=True):
        weight.assign(getattr(their, f"lambda_{short}").detach().numpy())

    x = RNG.normal(size=(BATCH, LENGTH, size)).astype("float32")
    hidden = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)[None, None]
    rotary = theirs.DiffLlamaRotaryEmbedding(config)
    with torch.no_grad():
        given = torch.tensor(x)
        embeddings = rotary(given, torch.arange(LENGTH)[None])
        expected, maps = (each.numpy() for each in their(given, embeddings, hidden))
        exponents = their.lambda_q1 @ their.lambda_k1, their.lambda_q2 @ their.lambda_k2
    first, second = (np.exp(each.item()) for each in exponents)
    output, weights = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    np.testing.assert_allclose(oracle.float64(output), expected, atol=2e-5)
    differences = maps[:, :heads] - (first - second + layer.lambda_init) * maps[:, heads:]
    np.testing.assert_allclose(oracle.float64(weights), differences, atol=1e-5)


def test_talking_heads_equal_those_of_deberta():
    config = transformers.DebertaConfig(
        hidden_size=SIZE, num_attention_heads=4, talking_head=True, pos_att_type=[]
    )
    their = transformers.models.deberta.modeling_deberta.DisentangledSelfAttention(config).eval()
    torch.manual_seed(0)
    for parameter in their.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    given = {name: each.detach().numpy().T for name, each in their.named_parameters()}
    layer = TalkingHeadsAttention(4, SIZE // 4, use_bias=["query", "value"])
    layer.build(X.shape, X.shape)
    # Each of their heads has its query, key and value side by side.
    kernels = np.split(given["in_proj.weight"].reshape(SIZE, 4, -1), 3, axis=-1)
    for name, kernel in zip(("query", "key", "value"), kernels, strict=True):
        getattr(layer, f"{name}_projection").kernel.assign(kernel.reshape(SIZE, SIZE))
    layer.query_projection.bias.assign(given["q_bias"])
    layer.value_projection.bias.assign(given["v_bias"])
    layer.score_mixing.assign(given["head_logits_proj.weight"])
    layer.weight_mixing.assign(given["head_weights_proj.weight"])
    layer.output_projection.kernel.assign(np.eye(SIZE))  # outside of their layer
    with torch.no_grad():
        earlier = torch.ones(1, 1, LENGTH, LENGTH).tril()
        expected = their(torch.tensor(X), earlier, output_attentions=True)
    found = layer(X, X, use_causal_mask=True, return_attention_scores=True)
    for each, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), wanted.numpy(), atol=3e-5)


@pytest.mark.parametrize("implementation", ["reference", "blocked", "chunked"])
def test_learned_sinks_equal_those_of_gpt_oss(implementation):
    theirs = transformers.models.gpt_oss.modeling_gpt_oss
    config = transformers.GptOssConfig(
        hidden_size=SIZE,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        num_hidden_layers=1,
        layer_types=["full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    their = theirs.GptOssAttention(config, layer_idx=0).eval()
    for parameter in their.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    layer = MultiHeadAttention(
        4,
        4,
        num_key_value_heads=2,
        normalizer="softmax_one",
        use_sink=True,
        mask="causal",
        position=positions.Rotary(10000, pairs="halves"),
        implementation=implementation,
    )
    layer.build(X.shape, X.shape)
    for short, name in {"q": "query", "k": "key", "v": "value", "o": "output"}.items():
        projection, given = getattr(layer, f"{name}_projection"), getattr(their, f"{short}_proj")
        projection.set_weights([given.weight.detach().numpy().T, given.bias.detach().numpy()])
    layer.attention.sink.assign(their.sinks.detach().numpy()[:, None, None])
    hidden = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)[None, None]
    with torch.no_grad():
        x = torch.tensor(X)
        embeddings = theirs.GptOssRotaryEmbedding(config)(x, torch.arange(LENGTH)[None])
        expected, weights = (each.numpy() for each in their(x, embeddings, hidden))
    np.testing.assert_allclose(oracle.float64(layer(X, X)), expected, atol=2e-5)
    if implementation == "reference":
        _, found = layer(X, X, return_attention_scores=True)
        np.testing.assert_allclose(oracle.float64(found), weights, atol=1e-5)
