"""ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021)."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.names import Names, Part
from zoo.checkpoints.pictures import reader_of, side_of
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.settings import REGRESSION, settings_of_labels

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
WITHOUT_HEAD = "ViTModel", "DeiTModel"  # for embeddings, and for new labels


def plan(settings, folder):
    settings.require_class((*CLASSES, *WITHOUT_HEAD))
    settings.require(chunk_size_feed_forward=0)
    settings.ignore("encoder_stride", "pooler_act", "pooler_output_size")
    kind = settings.model_type
    options = picture_options(settings, folder) | {
        "hidden": settings.take("intermediate_size"),
        "epsilon": settings.take("layer_norm_eps", default=1e-12),
        "patch_size": settings.take("patch_size", default=16),
        "position_size": side_of(settings, "image_size", 224),
    }
    table = table_of(kind, BLOCK, first=2 if kind == "deit" else 1)
    unused = (r"pooler\..*",)
    with_teacher = settings.architecture.endswith("WithTeacher") and not settings.new_labels
    if kind == "deit":
        options["distillation"] = "head" if with_teacher else "token"
        places = table["class_place"].name
        table["distillation_token"] = f"{kind}.embeddings.distillation_token"
        table["distillation_place"] = Part(places, 1, 1, 2)
        unused += (r"(cls|distillation)_classifier\.(weight|bias)",)
    if with_teacher:
        table |= {"head": "cls_classifier", "distillation_head": "distillation_classifier"}
        return Plan("vit", options, Names(table, f"{kind}."))
    family = settings.architecture.partition("For")[0].removesuffix("Model")
    return plan_of(settings, options, table, f"{kind}.", family, unused)


def picture_options(settings, folder):
    """Returns the options whose settings have the same names in all Vision Transformers.

    Raises:
        ValueError: If it is a regression model.
    """
    return {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        **options_without_sizes(settings, folder),
    }


def options_without_sizes(settings, folder):
    """Returns the `picture_options` that do not tell how large the stack is."""
    options = {
        **block_options(settings),
        "reader": reader_of(
            settings,
            folder,
            settings.take("image_size", default=224),
            settings.take("num_channels", default=3),
        ),
    }
    if is_embedder(settings):
        return options
    options["labels"] = settings.new_labels or settings.labels
    options["problem_type"] = settings.problem_type
    if options["problem_type"] == REGRESSION:
        raise ValueError(
            f"{settings.path} is of a regression model of images, which is not implemented."
        )
    return options


def block_options(settings):
    """Returns the `picture_options` of the blocks that are not sizes."""
    biases = ["query", "key", "value"] if settings.take("qkv_bias", default=True) else []
    return {
        "activation": activation(settings, settings.take("hidden_act", default="gelu")),
        "dropout": settings.take("hidden_dropout_prob", default=0.0),
        "attention_dropout": settings.take("attention_probs_dropout_prob", default=0.0),
        "use_bias": [*biases, "output", "feed_forward"],
    }


def is_embedder(settings):
    """Whether a model has no head, and gets none."""
    return settings.architecture.endswith("Model") and not settings.new_labels


def table_of(kind, block, first=1):
    """Returns the names of everything but the head.

    Args:
        kind: Prefix of the names.
        block: Table of the names in a block.
        first: Number of tokens in front of the patches.
    """
    table = {
        f"blocks.{{}}.{ours}": f"{kind}.encoder.layer.{{}}.{theirs}"
        for ours, theirs in block.items()
    }
    places = f"{kind}.embeddings.position_embeddings"  # of the tokens in front, then of patches
    return table | {
        "patches.cut": f"{kind}.embeddings.patch_embeddings.projection",
        "class_token": f"{kind}.embeddings.cls_token",
        "class_place": Part(places, 1, 0, 1),
        "place.table": Part(places, 1, first, None),
        "norm": f"{kind}.layernorm",
    }


def plan_of(settings, options, table, prefix, family, unused=(), architecture="vit"):
    """Returns the `Plan` of an embedder, or of a classifier, whose head may be new.

    Args:
        settings: `Settings`.
        options: Options of the model.
        table: Result of `table_of`.
        prefix: Prefix of the names that a file may leave out.
        family: First part of the names of classes in transformers, such as `"ViT"`, or `None` if
            there is no classifier among them.
        unused: Regular expressions of tensors that the model does not use, as of other heads.
        architecture: Name of the classifier in the catalog.
    """
    if is_embedder(settings):
        return Plan(f"{architecture}_embedding", options, Names(table, prefix, unused=unused))
    names = Names(table | {"head": "classifier"}, prefix, unused=unused)
    if settings.new_labels:
        of_labels = settings_of_labels(settings.new_labels, options["problem_type"])
        of_class = {"architectures": [f"{family}ForImageClassification"]}
        names = names.with_new_head("head", of_class | of_labels if family else {})
    return Plan(architecture, options, names)
