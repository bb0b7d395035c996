"""GatedDeltaAttention and KimiDeltaAttention against models of transformers, in PyTorch."""

import numpy as np
import pytest
from keras import ops

from keras_attention import GatedDeltaAttention, KimiDeltaAttention
from keras_attention.compute import delta
from tests.attention import gated_delta_test, oracle

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

BATCH, LENGTH, SIZE = 2, 70, 16
KEY_HEADS, HEADS, KEY_DIM, VALUE_DIM = 2, 4, 5, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, SIZE)).astype("float32")
PROJECTIONS = "query", "key", "value", "output_gate", "strength", "decay", "output"
SIZES = {
    "hidden_size": SIZE,
    "linear_num_key_heads": KEY_HEADS,
    "linear_num_value_heads": HEADS,
    "linear_key_head_dim": KEY_DIM,
    "linear_value_head_dim": VALUE_DIM,
    "linear_conv_kernel_dim": 4,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
}


@pytest.mark.parametrize("form", ["recurrent", "chunk"])
def test_equals_the_rule_of_qwen3_next(form):
    modeling = transformers.models.qwen3_next.modeling_qwen3_next
    function = getattr(modeling, f"torch_{form}_gated_delta_rule")
    check_rule(function, gated_delta_test.drawn(LENGTH), lambda log_decay: log_decay[..., 0])


@pytest.mark.parametrize("form", ["recurrent", "chunk"])
def test_equals_the_rule_of_kimi_linear(form):
    function = getattr(kimi_linear(), f"{form}_kimi_delta_attention")
    check_rule(function, gated_delta_test.drawn(LENGTH, decays=5), lambda log_decay: log_decay)


def kimi_linear():
    return pytest.importorskip("transformers.models.kimi_linear.modeling_kimi_linear")


def check_rule(function, given, shaped):
    before = gated_delta_test.random(BATCH, HEADS, 5, 3)
    query, key, value, log_decay, strength = (torch.tensor(x).swapaxes(1, 2) for x in given)
    expected = function(
        query,
        key,
        value,
        g=shaped(log_decay),
        beta=strength,
        initial_state=torch.tensor(before),
        output_final_state=True,
        use_qk_l2norm_in_kernel=False,
    )
    expected = expected[0].swapaxes(1, 2) * 5**0.5, expected[1]
    given = map(ops.convert_to_tensor, given)
    found = delta.attend(*given, before=ops.convert_to_tensor(before))
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), other.numpy(), atol=2e-5)


def randomized(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, mean=0.1, std=0.4)
    return module.eval(), {name: each.detach().numpy() for name, each in module.named_parameters()}


def qwen3_next():
    """Returns the layer, its weights, the kernels of the projections, and options of ours."""
    modeling = transformers.models.qwen3_next.modeling_qwen3_next
    config = transformers.Qwen3NextConfig(**SIZES)
    module, weights = randomized(modeling.Qwen3NextGatedDeltaNet(config, layer_idx=0))
    # They order queries, keys, values and gates by the heads of the keys first.
    by_head = weights["in_proj_qkvz.weight"].reshape(KEY_HEADS, -1, SIZE)
    kernels = np.split(by_head, np.cumsum([KEY_DIM, KEY_DIM, 2 * VALUE_DIM]), axis=1)
    kernels += np.split(weights["in_proj_ba.weight"].reshape(KEY_HEADS, -1, SIZE), 2, axis=1)
    kernels = [*(each.reshape(-1, SIZE) for each in kernels), weights["out_proj.weight"]]
    return module, weights, kernels, {}


def olmo_hybrid():
    modeling = transformers.models.olmo_hybrid.modeling_olmo_hybrid
    config = transformers.OlmoHybridConfig(**SIZES, linear_allow_neg_eigval=True)
    module, weights = randomized(modeling.OlmoHybridGatedDeltaNet(config, layer_idx=0))
    kernels = [weights[f"{short}_proj.weight"] for short in "qkvgbao"]
    weights["norm.weight"] = weights.pop("o_norm.weight")
    return module, weights, kernels, {"max_strength": 2.0, "epsilon": 1e-5}


@pytest.mark.parametrize("model", [qwen3_next, olmo_hybrid])
def test_equals_the_layer_of(model):
    module, weights, kernels, options = model()
    layer = GatedDeltaAttention(
        HEADS, KEY_DIM, VALUE_DIM, num_key_heads=KEY_HEADS, use_bias=False, **options
    )
    layer.build(X.shape, X.shape)
    for name, kernel in zip(PROJECTIONS, kernels, strict=True):
        getattr(layer, f"{name}_projection").kernel.assign(kernel.T)
    layer.convolution.kernel.assign(weights["conv1d.weight"][:, 0].T)
    layer.norm.scale.assign(weights["norm.weight"])
    layer.decay_bias.assign(weights["dt_bias"])
    layer.log_decay_rate.assign(weights["A_log"])
    visible = np.arange(LENGTH) >= [[0], [9]]  # padding in front
    with torch.no_grad():
        expected = module(torch.tensor(X), attention_mask=torch.tensor(visible)).numpy()
    found = oracle.float64(layer(X, X, value_mask=visible))
    np.testing.assert_allclose(found[visible], expected[visible], atol=2e-5)


def test_equals_the_layer_of_kimi_linear():
    modeling, heads, size = kimi_linear(), 3, 5
    config = transformers.KimiLinearConfig(
        hidden_size=SIZE,
        linear_num_heads=heads,
        linear_head_dim=size,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        mlp_layer_types=["dense"],
    )
    module, weights = randomized(modeling.KimiLinearDeltaAttention(config, layer_idx=0))
    layer = KimiDeltaAttention(heads, size, use_bias=False, epsilon=config.rms_norm_eps)
    layer.build(X.shape, X.shape)
    theirs = {
        "query": "q_proj",
        "key": "k_proj",
        "value": "v_proj",
        "strength": "b_proj",
        "decay_latent": "forget_gate.f_a_proj",
        "decay": "forget_gate.f_b_proj",
        "output_gate_latent": "g_a_proj",
        "output_gate": "g_b_proj",
        "output": "o_proj",
    }
    for name, other in theirs.items():
        getattr(layer, f"{name}_projection").kernel.assign(weights[f"{other}.weight"].T)
    layer.convolution.kernel.assign(weights["conv1d.weight"][:, 0].T)
    layer.norm.scale.assign(weights["o_norm.weight"])
    layer.decay_bias.assign(weights["forget_gate.dt_bias"])
    layer.log_decay_rate.assign(weights["forget_gate.A_log"].reshape(-1))
    visible = np.arange(LENGTH) >= [[0], [9]]  # padding in front
    with torch.no_grad():
        expected = module(torch.tensor(X), attention_mask=torch.tensor(visible)).numpy()
    found = oracle.float64(layer(X, X, value_mask=visible))
    np.testing.assert_allclose(found[visible], expected[visible], atol=2e-5)
