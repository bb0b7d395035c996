"""CLIP (Radford et al. 2021): images and texts in one space."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.generation import ignore_generation
from zoo.checkpoints.names import Names
from zoo.checkpoints.pictures import reader_of
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.settings import Settings

BLOCK = {
    "attention.query_projection": "self_attn.q_proj",
    "attention.key_projection": "self_attn.k_proj",
    "attention.value_projection": "self_attn.v_proj",
    "attention.output_projection": "self_attn.out_proj",
    "attention_norm": "layer_norm1",
    "feed_forward.inner": "mlp.fc1",
    "feed_forward.outer": "mlp.fc2",
    "feed_forward_norm": "layer_norm2",
}
TABLE = {
    "text_tower.embedding.table": "text_model.embeddings.token_embedding.weight",
    "text_tower.embedding.place.embeddings": "text_model.embeddings.position_embedding.weight",
    "text_tower.norm": "text_model.final_layer_norm",
    "text_projection": "text_projection",
    "image_tower.patches": "vision_model.embeddings.patch_embedding",
    "image_tower.class_token": "vision_model.embeddings.class_embedding",
    "image_tower.place.embeddings": "vision_model.embeddings.position_embedding.weight",
    "image_tower.input_norm": "vision_model.pre_layrnorm",
    "image_tower.norm": "vision_model.post_layernorm",
    "image_projection": "visual_projection",
    "log_scale": "logit_scale",
}
UNUSED = (r"(text|vision)_model\.embeddings\.position_ids",)  # buffers of older versions
CLASSES = ("CLIPModel",)
MEAN = [0.48145466, 0.4578275, 0.40821073]
DEVIATION = [0.26862954, 0.26130258, 0.27577711]
OLD_END = 2  # in configs without the right end token, which is then the last one
PATCHES = {"num_layers": 12, "size": 768, "num_heads": 12, "hidden": 3072}
WORDS = {"num_layers": 12, "size": 512, "num_heads": 8, "hidden": 2048}


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.ignore("logit_scale_init_value", "tie_word_embeddings")
    texts, pictures = settings_of_towers(settings)
    size = texts.take("vocab_size", default=49408)
    end_id = texts.take("eos_token_id", default=OLD_END)
    image_size = pictures.take("image_size", default=224)
    patch_size = pictures.take("patch_size", default=32)
    channels = pictures.take("num_channels", default=3)
    options = {
        "positions": (image_size // patch_size) ** 2,
        "patch_size": patch_size,
        "embedding_size": settings.take("projection_dim", default=512),
        "max_length": texts.take("max_position_embeddings", default=77),
        "end_id": size - 1 if end_id == OLD_END else end_id,
        "pad_id": -1,
        "text": _tower(texts, WORDS) | {"pooling": "end", "is_causal": True, "scaled": False},
        "image": _tower(pictures, PATCHES) | {"pooling": "first"},
        "reader": reader_of(
            settings, folder, image_size, channels, "bicubic", MEAN, DEVIATION, keeps_shape=True
        ),
        "plain_texts": False,
    }
    for each in (texts, pictures):
        each.require_all_seen()
    return Plan("clip", options, Names(TABLE | table_of_blocks(), "", {}, UNUSED), size)


def settings_of_towers(settings):
    """Returns the `Settings` of the text tower and of the image tower.

    Older files have two copies, of which the other counts.
    """
    towers = []
    for name in ("text_config", "vision_config"):
        content = settings.take(name, default={})
        found = Settings(settings.path, settings.take(f"{name}_dict", default=content))
        ignore_generation(found)
        found.require(is_decoder=False, add_cross_attention=False, chunk_size_feed_forward=0)
        found.ignore("projection_dim", "tie_word_embeddings")
        towers.append(found)
    return towers


def options_of_tower(settings, defaults, usual_activation, epsilon):
    """Returns the options of a tower that have the same names in all families.

    Args:
        settings: `Settings` of the tower.
        defaults: Dictionary of the number of layers and the sizes to use if there are none.
        usual_activation, epsilon: The same.
    """
    names = {
        "num_layers": "num_hidden_layers",
        "size": "hidden_size",
        "num_heads": "num_attention_heads",
        "hidden": "intermediate_size",
    }
    sizes = {ours: settings.take(names[ours], default=usual) for ours, usual in defaults.items()}
    return {
        **sizes,
        "activation": activation(settings, settings.take("hidden_act", default=usual_activation)),
        "epsilon": settings.take("layer_norm_eps", default=epsilon),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
    }


def table_of_blocks():
    """Returns the names of everything in the blocks of both towers."""
    return {
        f"{ours}_tower.blocks.{{}}.{part}": f"{theirs}_model.encoder.layers.{{}}.{name}"
        for ours, theirs in {"text": "text", "image": "vision"}.items()
        for part, name in BLOCK.items()
    }


def _tower(settings, defaults):
    dropout = settings.take("dropout", default=0.0)
    return options_of_tower(settings, defaults, "quick_gelu", 1e-5) | {"dropout": dropout}
