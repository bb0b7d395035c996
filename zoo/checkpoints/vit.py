"""ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021): image classifiers."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.names import Names, Part
from zoo.checkpoints.pictures import reader_of
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.settings import REGRESSION

BLOCK = {
    "attention.query_projection": "attention.attention.query",
    "attention.key_projection": "attention.attention.key",
    "attention.value_projection": "attention.attention.value",
    "attention.output_projection": "attention.output.dense",
    "attention_norm": "layernorm_before",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense",
    "feed_forward_norm": "layernorm_after",
}
CLASSES = (
    "ViTForImageClassification",
    "DeiTForImageClassification",
    "DeiTForImageClassificationWithTeacher",
)
WITHOUT_HEAD = "ViTModel", "DeiTModel"  # for new labels


def plan(settings, folder):
    settings.require_class((*CLASSES, *(WITHOUT_HEAD if settings.new_labels else ())))
    settings.require(chunk_size_feed_forward=0)
    settings.ignore("encoder_stride", "pooler_act", "pooler_output_size")
    kind = settings.model_type
    with_teacher = settings.architecture.endswith("WithTeacher") and not settings.new_labels
    biases = ["query", "key", "value"] if settings.take("qkv_bias", default=True) else []
    image_size = settings.take("image_size", default=224)
    channels = settings.take("num_channels", default=3)
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        "hidden": settings.take("intermediate_size"),
        "activation": activation(settings, settings.take("hidden_act", default="gelu")),
        "dropout": settings.take("hidden_dropout_prob", default=0.0),
        "attention_dropout": settings.take("attention_probs_dropout_prob", default=0.0),
        "epsilon": settings.take("layer_norm_eps", default=1e-12),
        "patch_size": settings.take("patch_size", default=16),
        "use_bias": [*biases, "output", "feed_forward"],
        "reader": reader_of(settings, folder, image_size, channels),
        "labels": settings.new_labels or settings.labels,
        "problem_type": settings.problem_type,
    }
    if options["problem_type"] == REGRESSION:
        raise ValueError(
            f"{settings.path} is of a regression model of images, which is not implemented."
        )
    first = 1
    if kind == "deit":
        options["distillation"] = "head" if with_teacher else "token"
        first = 2
    names = Names(_table(kind, with_teacher, first, settings.new_labels), f"{kind}.")
    if settings.new_labels:
        unused = r"(cls_|distillation_)?classifier\.(weight|bias)", r"pooler\..*"
        names = names._replace(unused=unused, fresh=("head",))
    return Plan("vit", options, names)


def _table(kind, with_teacher, first, new_labels):
    table = {
        f"blocks.{{}}.{ours}": f"{kind}.encoder.layer.{{}}.{theirs}"
        for ours, theirs in BLOCK.items()
    }
    places = f"{kind}.embeddings.position_embeddings"  # of the tokens in front, then of patches
    table |= {
        "patches.cut": f"{kind}.embeddings.patch_embeddings.projection",
        "class_token": f"{kind}.embeddings.cls_token",
        "class_place": Part(places, 1, 0, 1),
        "place.table": Part(places, 1, first, None),
        "norm": f"{kind}.layernorm",
    }
    if first == 2:
        table["distillation_token"] = f"{kind}.embeddings.distillation_token"
        table["distillation_place"] = Part(places, 1, 1, 2)
    if with_teacher:
        table |= {"head": "cls_classifier", "distillation_head": "distillation_classifier"}
    elif not new_labels:
        table["head"] = "classifier"
    return table
