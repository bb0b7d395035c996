"""DINOv3 (Siméoni et al. 2025): a Vision Transformer with rotary positions and registers.

Its training, with stochastic depth and coordinates that are moved and scaled at random, is not
implemented.
"""

from zoo.checkpoints.vit import picture_options, plan_of

BLOCK = {
    "attention.query_projection": "attention.q_proj",
    "attention.key_projection": "attention.k_proj",
    "attention.value_projection": "attention.v_proj",
    "attention.output_projection": "attention.o_proj",
    "attention_norm": "norm1",
    "attention_scale": "layer_scale1.lambda1",
    "feed_forward.inner": "mlp.up_proj",
    "feed_forward.outer": "mlp.down_proj",
    "feed_forward_norm": "norm2",
    "feed_forward_scale": "layer_scale2.lambda1",
}
BIASES = {  # with their defaults
    "query": ("query_bias", True),
    "key": ("key_bias", False),
    "value": ("value_bias", True),
    "output": ("proj_bias", True),
    "feed_forward": ("mlp_bias", True),
}


def plan(settings, folder):
    settings.require_class(("DINOv3ViTModel",))
    settings.ignore(
        "apply_layernorm",
        "drop_path_rate",
        "out_features",
        "out_indices",
        "pos_embed_jitter",
        "pos_embed_rescale",
        "pos_embed_shift",
        "reshape_hidden_states",
        "stage_names",
    )
    options = picture_options(settings, folder) | {
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("layer_norm_eps", default=1e-5),
        "gated": settings.take("use_gated_mlp", default=False),
        "hidden": settings.take("intermediate_size"),
        "layer_scale": settings.take("layerscale_value", default=1.0),
        "max_wavelength": settings.take("rope_theta", default=100.0),
        "patch_size": settings.take("patch_size", default=16),
        "pooling": "both" if settings.new_labels else "first",
        "position": "rotary",
        "registers": settings.take("num_register_tokens", default=0),
        "use_bias": [
            part for part, (name, usual) in BIASES.items() if settings.take(name, default=usual)
        ],
    }
    block = BLOCK | ({"feed_forward.gate": "mlp.gate_proj"} if options["gated"] else {})
    table = {f"blocks.{{}}.{ours}": f"model.layer.{{}}.{theirs}" for ours, theirs in block.items()}
    table |= {
        "patches.cut": "embeddings.patch_embeddings",
        "class_token": "embeddings.cls_token",
        "norm": "norm",
    }
    unused = (r"embeddings\.mask_token",)  # of hidden patches in pretraining
    if options["registers"]:
        table["registers"] = "embeddings.register_tokens"
    else:
        unused += (r"embeddings\.register_tokens",)
    # Older files leave out the prefix of the layers.
    return plan_of(settings, options, table, "model.", None, unused)
