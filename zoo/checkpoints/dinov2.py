"""DINOv2 (Oquab et al. 2023): a Vision Transformer that was trained without labels; also with
registers (Darcet et al. 2024).

The stochastic depth of its training is not implemented.
"""

import dataclasses

from zoo.checkpoints.vit import BLOCK, is_embedder, picture_options, plan_of, table_of

FAMILIES = {"dinov2": "Dinov2", "dinov2_with_registers": "Dinov2WithRegisters"}
OF_DINO = {
    "attention_norm": "norm1",
    "attention_scale": "layer_scale1.lambda1",
    "feed_forward.inner": "mlp.fc1",
    "feed_forward.outer": "mlp.fc2",
    "feed_forward_norm": "norm2",
    "feed_forward_scale": "layer_scale2.lambda1",
}


def plan(settings, folder):
    kind, family = settings.model_type, FAMILIES[settings.model_type]
    settings.require_class((f"{family}ForImageClassification", f"{family}Model"))
    settings.require(use_swiglu_ffn=False)
    settings.ignore(
        "apply_layernorm",
        "drop_path_rate",
        "out_features",
        "out_indices",
        "reshape_hidden_states",
        "stage_names",
        "use_mask_token",
    )
    options = picture_options(settings, folder) | {
        "epsilon": settings.take("layer_norm_eps", default=1e-6),
        "patch_size": settings.take("patch_size", default=14),
        "position_size": settings.take("image_size", default=224),
        "layer_scale": settings.take("layerscale_value", default=1.0),
        "pooling": "first" if is_embedder(settings) else "both",
    }
    options["hidden"] = options["size"] * settings.take("mlp_ratio", default=4)
    of_mask = (rf"({kind}\.)?embeddings\.mask_token",)  # of hidden patches in pretraining
    table = table_of(kind, BLOCK | OF_DINO)
    if kind == "dinov2_with_registers":
        options |= {"registers": settings.take("num_register_tokens", default=4), "antialias": True}
        table["registers"] = f"{kind}.embeddings.register_tokens"
    found = plan_of(settings, options, table, f"{kind}.", family, of_mask)
    if kind == "dinov2_with_registers":  # whose class in transformers always has one
        carried = (f"{kind}.embeddings.mask_token",)
        return dataclasses.replace(found, names=found.names._replace(carried=carried))
    if found.names.new_head:
        found.names.new_settings["use_mask_token"] = False  # the file will have none
    return found
