"""BLIP (Li et al. 2022) for image captioning."""

from zoo.checkpoints import bert
from zoo.checkpoints.clip import DEVIATION, MEAN, PATCHES, options_of_tower
from zoo.checkpoints.encoders import POSITION_IDS
from zoo.checkpoints.generation import ignore_generation, sampler_of
from zoo.checkpoints.names import Names, Part
from zoo.checkpoints.pictures import reader_of, side_of
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.settings import Settings
from zoo.readers.text.reading import read_tokenizer
from zoo.storage import CONFIG

EYES, TEXTS, HEAD = "vision_model", "text_decoder.bert", "text_decoder.cls.predictions"
PLACES = f"{EYES}.embeddings.position_embedding"  # of the class token, then of patches
TABLE = {
    "image_tower.patches.cut": f"{EYES}.embeddings.patch_embedding",
    "image_tower.class_token": f"{EYES}.embeddings.class_embedding",
    "image_tower.class_place": Part(PLACES, 1, 0, 1),
    "image_tower.place.table": Part(PLACES, 1, 1, None),
    "image_tower.norm": f"{EYES}.post_layernorm",
    "embedding.table": f"{TEXTS}.embeddings.word_embeddings.weight",
    "embedding.place.embeddings": f"{TEXTS}.embeddings.position_embeddings.weight",
    "embedding.norm": f"{TEXTS}.embeddings.LayerNorm",
    "embedding.bias": f"{HEAD}.bias",
    "transform": f"{HEAD}.transform.dense",
    "transform_norm": f"{HEAD}.transform.LayerNorm",
}
OF_IMAGES = {  # of a block
    "attention.output_projection": "self_attn.projection",
    "attention_norm": "layer_norm1",
    "feed_forward.inner": "mlp.fc1",
    "feed_forward.outer": "mlp.fc2",
    "feed_forward_norm": "layer_norm2",
}
ATTENTIONS = {"self_attention": "attention", "cross_attention": "crossattention"}
TIED = {
    f"{HEAD}.decoder.weight": TABLE["embedding.table"],
    f"{HEAD}.decoder.bias": TABLE["embedding.bias"],
}
CLASSES = ("BlipForConditionalGeneration",)
WORDS = {"num_layers": 12, "size": 768, "num_heads": 8, "hidden": 3072}
START, END = 30522, 102
_OF_OTHERS = "image_text_hidden_size", "logit_scale_init_value", "projection_dim"  # other classes


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(tie_word_embeddings=True)
    settings.ignore(*_OF_OTHERS, "label_smoothing")
    texts, pictures = _parts(settings)
    ignore_generation(pictures)
    texts.require(is_decoder=True, tie_word_embeddings=True)
    texts.ignore("encoder_hidden_size", "label_smoothing")  # the former is that of the images
    pictures.require(is_decoder=False, num_channels=3)
    pictures.ignore("dropout", "tie_word_embeddings")  # which no layer reads
    for each in (texts, pictures):
        each.require(add_cross_attention=False, chunk_size_feed_forward=0)
        each.ignore(*_OF_OTHERS)
    image_size = side_of(pictures, "image_size", 384)
    image = options_of_tower(pictures, PATCHES, "gelu", 1e-5)
    options = {
        **options_of_tower(texts, WORDS, "gelu", 1e-12),
        "dropout": texts.take("hidden_dropout_prob", default=0.0),
        "attention_dropout": texts.take("attention_probs_dropout_prob", default=0.0),
        "max_length": texts.take("max_position_embeddings", default=512),
        "patch_size": side_of(pictures, "patch_size", 16),
        "image": image,
        "reader": reader_of(settings, folder, image_size, 3, "bicubic", MEAN, DEVIATION),
        "sampler": sampler_of(texts, folder, counts_start=True),
    }
    size = texts.take("vocab_size", default=30524)
    for each in (texts, pictures):
        each.require_all_seen()
    names = Names(TABLE | _table_of_blocks(image["size"]), "", TIED, (POSITION_IDS,))
    return Plan("blip", options, names, size)


def tokenizer(folder, size):
    """Returns the tokenizer. The config names the tokens that begin and end a caption by their ids;
    the tokenizer of BERT that comes with it does not know the first.
    """
    texts, _ = _parts(Settings.read(folder / CONFIG))
    start, end = texts.take("bos_token_id", default=START), texts.take("sep_token_id", default=END)
    return read_tokenizer(folder, size=size, start=start, end=end)


def _parts(settings):
    """Returns the `Settings` of the decoder of texts, and of the model of images."""
    names = "text_config", "vision_config"
    return [Settings(settings.path, settings.take(name, default={})) for name in names]


def _table_of_blocks(size):
    """Returns the names of everything in the blocks of both stacks.

    Args:
        size: Size of the vectors of images: one tensor holds the projections of queries, keys and
            values.
    """
    block = f"{EYES}.encoder.layers.{{}}"
    table = {f"image_tower.blocks.{{}}.{part}": f"{block}.{x}" for part, x in OF_IMAGES.items()}
    for place, role in enumerate(("query", "key", "value")):
        part = Part(f"{block}.self_attn.qkv", -1, place * size, (place + 1) * size)
        table[f"image_tower.blocks.{{}}.attention.{role}_projection"] = part
    for part, name in bert.BLOCK.items():
        part, name = part.replace("blocks", "decoder"), f"{TEXTS}.{name}"
        if ".attention." not in name:
            table[part] = name
            continue
        for ours, theirs in ATTENTIONS.items():
            table[part.replace("attention", ours)] = name.replace("attention", theirs)
    return table
