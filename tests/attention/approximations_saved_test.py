"""How the less common attention layers are configured and saved."""

import inspect

import keras
import numpy as np
import pytest

from keras_attention import (
    BlockSelectionAttention,
    CrossCovarianceAttention,
    DifferentialAttention,
    ForgettingAttention,
    MultiHeadAttention,
    TalkingHeadsAttention,
    masks,
    normalizers,
    positions,
    scores,
)
from keras_attention.gated_delta import GatedDeltaAttention
from keras_attention.gated_linear import GatedLinearAttention
from keras_attention.gaussian_mixture import GaussianMixtureAttention
from keras_attention.kimi_delta import KimiDeltaAttention
from keras_attention.latent import LatentAttention
from keras_attention.linear import LinearAttention
from keras_attention.linformer import LinformerAttention
from keras_attention.local import LocalAttention
from keras_attention.longformer import LongformerAttention
from keras_attention.nystrom import NystromAttention
from keras_attention.performer import PerformerAttention
from keras_attention.reformer import ReformerAttention
from keras_attention.retention import RetentionAttention
from tests.attention.approximations_test import BATCH, LAYERS, RNG, SIZE, make, random
from tests.attention.saved import check_config, check_file

MULTI_HEAD = {
    "num_heads": 2,
    "key_dim": 4,
    "value_dim": 3,
    "output_dim": 6,
    "use_bias": False,
    "kernel_initializer": keras.initializers.HeNormal(seed=1),
    "seed": 7,
    "name": "look",
    "dtype": "mixed_bfloat16",
}
EVERY_ARGUMENT = [
    (
        DifferentialAttention,
        {
            **MULTI_HEAD,
            "num_key_value_heads": 1,
            "score": scores.General(kernel_initializer="ones"),
            "mask": masks.Causal() & masks.Array(np.tri(9)),
            "lambda_init": 0.3,
        },
    ),
    (ForgettingAttention, {**MULTI_HEAD, "mask": masks.SlidingWindow(4, 0), "use_gate": True}),
    (
        TalkingHeadsAttention,
        {
            **MULTI_HEAD,
            "num_key_value_heads": 1,
            "normalizer": normalizers.SoftmaxOne(),
            "use_sink": True,
            "position": positions.ALiBi(name="alibi"),
            "soft_cap": 20.0,
            "dropout": 0.25,
            "implementation": "reference",
        },
    ),
    (
        LocalAttention,
        {
            "mode": "predictive",
            "half_width": 3,
            "score": scores.Additive(),
            "units": 4,
            "kernel_initializer": keras.initializers.HeNormal(seed=1),
            "normalizer": normalizers.Softmax(),
            "mask": masks.Causal(),
            "soft_cap": 20.0,
            "dropout": 0.25,
            "implementation": "reference",
            "seed": 7,
            "name": "look",
            "dtype": "mixed_bfloat16",
        },
    ),
    (
        BlockSelectionAttention,
        {
            **{name: MULTI_HEAD[name] for name in MULTI_HEAD if name != "seed"},
            "num_key_value_heads": 1,
            "block_size": 4,
            "num_blocks": 3,
            "causal": True,
            "position": positions.Rotary(500, pairs="halves", name="rotary"),
        },
    ),
    (
        LatentAttention,
        {
            **MULTI_HEAD,
            "use_bias": ["query", "latent"],
            "latent_dim": 6,
            "rotary_dim": 2,
            "query_latent_dim": 5,
            "position": positions.Rotary(500, pairs="halves", name="rotary"),
            "normalizer": normalizers.SoftmaxOne(),
            "mask": masks.Causal(),
            "soft_cap": 20.0,
            "dropout": 0.25,
            "implementation": "chunked",
        },
    ),
    (
        LinearAttention,
        {**{name: MULTI_HEAD[name] for name in MULTI_HEAD if name != "seed"}, "causal": True},
    ),
    (PerformerAttention, {**MULTI_HEAD, "num_features": 9, "kernel": "relu", "causal": True}),
    (
        LinformerAttention,
        {
            **MULTI_HEAD,
            "projected_length": 3,
            "max_length": 9,
            "share_projection": True,
            "projection_initializer": keras.initializers.HeNormal(seed=2),
            "dropout": 0.25,
        },
    ),
    (
        LongformerAttention,
        {**MULTI_HEAD, "window": 4, "num_global_tokens": 2, "dropout": 0.25},
    ),
    (
        NystromAttention,
        {
            **{name: MULTI_HEAD[name] for name in MULTI_HEAD if name != "seed"},
            "num_landmarks": 3,
            "num_iterations": 2,
            "kernel_size": 4,
        },
    ),
    (
        CrossCovarianceAttention,
        {**{name: MULTI_HEAD[name] for name in MULTI_HEAD if name != "seed"}, "value_dim": 4},
    ),
    (
        ReformerAttention,
        {**MULTI_HEAD, "bucket_size": 4, "num_hashes": 2, "max_buckets": 8, "causal": True},
    ),
    (
        GatedDeltaAttention,
        {
            **{name: MULTI_HEAD[name] for name in MULTI_HEAD if name != "seed"},
            "num_key_heads": 1,
            "use_decay": False,
            "use_gate": False,
            "kernel_size": 3,
            "max_strength": 2.0,
            "epsilon": 1e-5,
            "use_bias": ["query", "strength"],
        },
    ),
    (
        RetentionAttention,
        {
            **{name: MULTI_HEAD[name] for name in MULTI_HEAD if name != "seed"},
            "position": positions.Rotary(500, pairs="halves", name="rotary"),
            "epsilon": 1e-5,
            "use_bias": ["query", "output_gate"],
        },
    ),
    (
        GatedLinearAttention,
        {
            **{name: MULTI_HEAD[name] for name in MULTI_HEAD if name != "seed"},
            "epsilon": 1e-5,
            "use_bias": ["decay", "output_gate"],
        },
    ),
    (
        KimiDeltaAttention,
        {
            **{name: MULTI_HEAD[name] for name in MULTI_HEAD if name != "seed"},
            "kernel_size": 3,
            "epsilon": 1e-5,
            "use_bias": ["query", "strength"],
        },
    ),
    (
        GaussianMixtureAttention,
        {
            "num_components": 3,
            "units": 4,
            "normalized": False,
            "initial_step": 0.5,
            "initial_width": 2.0,
            "kernel_initializer": keras.initializers.HeNormal(seed=1),
        },
    ),
]


@pytest.mark.parametrize(("layer_class", "arguments"), EVERY_ARGUMENT)
def test_config_has_every_argument_and_makes_the_same_layer(layer_class, arguments):
    check_config(layer_class, arguments)


@pytest.mark.full
def test_saved_file_gives_the_same_in_a_process_that_only_imports_the_package(tmp_path):
    x, visible = keras.Input((9, SIZE), name="x"), keras.Input((9,), dtype="bool", name="visible")
    outputs = {name: make(name)(x, x, value_mask=visible) for name in LAYERS}
    for layer_class, arguments in EVERY_ARGUMENT:
        layer = layer_class(**{**arguments, "name": f"every_{layer_class.__name__}"})
        outputs[layer.name] = layer(x, x, value_mask=visible)
    model = keras.Model({"x": x, "visible": visible}, outputs)
    for variable in model.trainable_variables:
        variable.assign(RNG.normal(size=variable.shape))
    inputs = {"x": random(BATCH, 9, SIZE), "visible": RNG.random((BATCH, 9)) < 0.7}
    modules = {type(layer).__module__ for layer in model.layers}
    own = sorted(module for module in modules if module.startswith("keras_attention"))
    check_file(model, inputs, tmp_path, own)


@pytest.mark.parametrize(
    "layer",
    [
        MultiHeadAttention,
        BlockSelectionAttention,
        CrossCovarianceAttention,
        DifferentialAttention,
        ForgettingAttention,
        GatedDeltaAttention,
        GatedLinearAttention,
        KimiDeltaAttention,
        LatentAttention,
        LinearAttention,
        LinformerAttention,
        LongformerAttention,
        NystromAttention,
        PerformerAttention,
        ReformerAttention,
        TalkingHeadsAttention,
        RetentionAttention,
    ],
)
def test_arguments_without_a_name_have_the_order_of_keras(layer):
    signature = inspect.signature(layer).parameters.values()
    positional = [each.name for each in signature if each.kind is each.POSITIONAL_OR_KEYWORD]
    theirs = list(inspect.signature(keras.layers.MultiHeadAttention).parameters)
    assert positional == theirs[: max(3, len(positional))]
