"""SigLIP (Zhai et al. 2023), and SigLIP 2 (Tschannen et al. 2025) with images of a fixed size."""

from zoo.checkpoints.clip import (
    PATCHES,
    UNUSED,
    options_of_tower,
    settings_of_towers,
    table_of_blocks,
)
from zoo.checkpoints.names import Names, Part
from zoo.checkpoints.pictures import reader_of, side_of
from zoo.checkpoints.plan import Plan
from zoo.readers.text.reading import read_tokenizer
from zoo.storage.json_files import read_named_json
from zoo.storage.kinds import LARGEST_CONFIG

TABLE = {
    "text_tower.embedding.table": "text_model.embeddings.token_embedding.weight",
    "text_tower.embedding.place.embeddings": "text_model.embeddings.position_embedding.weight",
    "text_tower.norm": "text_model.final_layer_norm",
    "text_projection": "text_model.head",
    "image_tower.patches": "vision_model.embeddings.patch_embedding",
    "image_tower.place.embeddings": "vision_model.embeddings.position_embedding.weight",
    "image_tower.norm": "vision_model.post_layernorm",
    "image_tower.pool.query": "vision_model.head.probe",
    "image_tower.pool.attention.output_projection": "vision_model.head.attention.out_proj",
    "image_tower.pool_norm": "vision_model.head.layernorm",
    "image_tower.pool_feed_forward.inner": "vision_model.head.mlp.fc1",
    "image_tower.pool_feed_forward.outer": "vision_model.head.mlp.fc2",
    "log_scale": "logit_scale",
    "bias": "logit_bias",
}
CLASSES = ("SiglipModel",)
SIZES = PATCHES  # the defaults of both towers
CONFIG_OF_TOKENIZER = "tokenizer_config.json"


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.ignore("tie_word_embeddings")
    texts, pictures = settings_of_towers(settings)
    pictures.require(vision_use_head=True)
    size = texts.take("vocab_size", default=32000)
    image_size = side_of(pictures, "image_size", 224)
    patch_size = side_of(pictures, "patch_size", 16)
    channels = pictures.take("num_channels", default=3)
    of_texts, of_images = (
        options_of_tower(each, SIZES, "gelu_pytorch_tanh", 1e-6) for each in (texts, pictures)
    )
    projected = texts.take("projection_size", default=of_texts["size"])
    if projected != of_images["size"]:
        raise ValueError(
            f"{settings.path} says projection_size={projected} of texts, and hidden_size="
            f"{of_images['size']} of images: vectors of different sizes cannot be compared."
        )
    options = {
        "positions": (image_size // patch_size) ** 2,
        "patch_size": patch_size,
        "max_length": texts.take("max_position_embeddings", default=64),
        "text": of_texts,
        "image": of_images,
        "reader": reader_of(settings, folder, image_size, channels, "bicubic"),
        "plain_texts": False,
    }
    for each in (texts, pictures):
        each.require_all_seen()
    table = TABLE | table_of_blocks() | _table_of_pooling(of_images["size"])
    names = Names(table, "", {}, UNUSED)
    return Plan("siglip", options, names, size, of_tokenizer=("end_id", "pad_id"))


def tokenizer(folder, size):
    """Returns the tokenizer.

    Raises:
        ValueError: If it puts other tokens around a text than an end token behind it, or padding in
            front of it.
    """
    path = folder / CONFIG_OF_TOKENIZER
    config = read_named_json(path, LARGEST_CONFIG) if path.is_file() else {}
    if config.get("padding_side", "right") != "right":
        raise ValueError(
            f"{path} says padding_side={config['padding_side']!r}, which is not implemented: it "
            "should be 'right', as in the training of the model."
        )
    lowercase = (config.get("tokenizer_class") or "").startswith("Siglip2Tokenizer")
    found = read_tokenizer(folder, size=size, lowercase=lowercase)
    template = [item.token_ids for item in found.templates[0]]
    if template != [(), (found.end_id,)]:
        raise ValueError(
            f"The post_processor of the tokenizer in {folder} puts the tokens {template} around a "
            "text, () being the text, which is not implemented: it should be an end token behind."
        )
    return found


def _table_of_pooling(size):
    """Returns the names of the projections of queries, keys and values, which one tensor holds."""
    held = "vision_model.head.attention.in_proj"
    return {
        f"image_tower.pool.attention.{role}_projection": Part(
            held, -1, number * size, (number + 1) * size, separator="_"
        )
        for number, role in enumerate(("query", "key", "value"))
    }
