"""DINOv2 (Oquab et al. 2023): a Vision Transformer that was trained without labels.

Not implemented is the stochastic depth of its training.
"""

from zoo.checkpoints.plan import Plan
from zoo.checkpoints.vit import BLOCK, names_with_head, picture_options, table_of

OF_DINO = {
    "attention_norm": "norm1",
    "attention_scale": "layer_scale1.lambda1",
    "feed_forward.inner": "mlp.fc1",
    "feed_forward.outer": "mlp.fc2",
    "feed_forward_norm": "norm2",
    "feed_forward_scale": "layer_scale2.lambda1",
}
WITHOUT_HEAD = ("Dinov2Model",)  # for new labels


def plan(settings, folder):
    without_head = WITHOUT_HEAD if settings.new_labels else ()
    settings.require_class(("Dinov2ForImageClassification", *without_head))
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
        "pooling": "both",
    }
    options["hidden"] = options["size"] * settings.take("mlp_ratio", default=4)
    table = table_of("dinov2", BLOCK | OF_DINO)
    names = names_with_head(settings, options, table, "dinov2", "Dinov2")
    return Plan("vit", options, _without_mask(names))


def _without_mask(names):
    """Returns the names of a model without the token of masked patches, used in pretraining."""
    settings = {**names.new_settings, "use_mask_token": False} if names.new_head else {}
    unused = (*names.unused, r"(dinov2\.)?embeddings\.mask_token")
    return names._replace(unused=unused, new_settings=settings)
