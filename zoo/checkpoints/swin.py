"""The Swin Transformer (Liu et al. 2021), which classifies images, or returns their vectors.

The stochastic depth of its training is not implemented.
"""

from zoo.checkpoints.names import Grid
from zoo.checkpoints.vit import options_without_sizes, plan_of

PREFIX = "swin."
BLOCK = {
    "attention.query_projection": "attention.self.query",
    "attention.key_projection": "attention.self.key",
    "attention.value_projection": "attention.self.value",
    "attention.output_projection": "attention.output.dense",
    "attention_norm": "layernorm_before",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense",
    "feed_forward_norm": "layernorm_after",
}
BIAS = "attention.attention.position.embeddings"


def plan(settings, folder):
    settings.require_class(("SwinForImageClassification", "SwinModel"))
    settings.require(use_absolute_embeddings=False)
    settings.ignore(
        "drop_path_rate",
        "encoder_stride",
        "hidden_size",  # these two follow from others
        "num_layers",
        "out_features",
        "out_indices",
        "path_norm",
        "stage_names",
    )
    options = options_without_sizes(settings, folder) | {
        "num_layers": settings.take("depths", default=[2, 2, 6, 2]),
        "num_heads": settings.take("num_heads", default=[3, 6, 12, 24]),
        "size": settings.take("embed_dim", default=96),
        "window": settings.take("window_size", default=7),
        "expansion": settings.take("mlp_ratio", default=4.0),
        "patch_size": settings.take("patch_size", default=4),
        "epsilon": settings.take("layer_norm_eps", default=1e-5),
    }
    table = {
        "patches.cut": f"{PREFIX}embeddings.patch_embeddings.projection",
        "patch_norm": f"{PREFIX}embeddings.norm",
        "norm": f"{PREFIX}layernorm",
    }
    stages = len(options["num_layers"])
    for stage in range(stages):
        layer = f"{PREFIX}encoder.layers.{stage}"
        for ours, theirs in BLOCK.items():
            table[f"stage_{stage}.{{}}.{ours}"] = f"{layer}.blocks.{{}}.{theirs}"
        bias = f"{layer}.blocks.{{}}.attention.self.relative_position_bias_table"
        table[f"stage_{stage}.{{}}.{BIAS}"] = Grid(bias)
        if stage < stages - 1:
            table[f"merges.{stage}.norm"] = f"{layer}.downsample.norm"
            table[f"merges.{stage}.reduction"] = f"{layer}.downsample.reduction"
    unused = (r".*\.attention\.self\.relative_position_index",)  # which follows from the window
    return plan_of(settings, options, table, PREFIX, "Swin", unused, architecture="swin")
