"""GPT-Neo (Black et al. 2021), such as TinyStories: every other layer has a window."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.layer_types import FULL, WINDOWED, windows
from zoo.checkpoints.names import Names

LAYER = "transformer.h.{}"
TABLE = {
    "embedding.table": "transformer.wte.weight",
    "embedding.place.embeddings": "transformer.wpe.weight",
    "blocks.{}.attention_norm": f"{LAYER}.ln_1",
    "blocks.{}.attention.query_projection": f"{LAYER}.attn.attention.q_proj",
    "blocks.{}.attention.key_projection": f"{LAYER}.attn.attention.k_proj",
    "blocks.{}.attention.value_projection": f"{LAYER}.attn.attention.v_proj",
    "blocks.{}.attention.output_projection": f"{LAYER}.attn.attention.out_proj",
    "blocks.{}.feed_forward_norm": f"{LAYER}.ln_2",
    "blocks.{}.feed_forward.inner": f"{LAYER}.mlp.c_fc",
    "blocks.{}.feed_forward.outer": f"{LAYER}.mlp.c_proj",
    "norm": "transformer.ln_f",
}
UNUSED = (r"(transformer\.)?h\.\d+\.attn\.attention\.(bias|masked_bias)",)  # buffers: the masks
CLASSES = ("GPTNeoForCausalLM",)
KINDS = {"global": FULL, "local": WINDOWED}
USUAL = [[["global", "local"], 12]]


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(chunk_size_feed_forward=0, tie_word_embeddings=True)
    settings.ignore("summary_activation", "summary_proj_to_labels", "summary_first_dropout")
    settings.ignore("summary_type", "summary_use_proj")
    size, number = settings.take("hidden_size"), settings.take("num_layers")
    kinds = _kinds(settings)
    options = {
        "num_layers": number,
        "size": size,
        "num_heads": settings.take("num_heads"),
        "hidden": settings.take("intermediate_size", default=None) or 4 * size,
        "context_length": settings.take("max_position_embeddings"),
        "position": "learned",
        "score": "dot",
        **windows(settings, settings.take("window_size", default=256), kinds),
        "activation": activation(settings, settings.take("activation_function")),
        "dropout": settings.take("resid_dropout", default=0.0),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("layer_norm_epsilon", default=1e-5),
        "use_bias": ["output", "feed_forward"],
        "scaled": False,
        "pad_id": -1,
    }
    settings.ignore("embed_dropout")  # the embedding has the dropout of the blocks
    return language_plan(settings, folder, options, Names(TABLE, "transformer.", {}, UNUSED))


def _kinds(settings):
    """Returns the kind of each layer; a list of them counts before the types with numbers."""
    layers = settings.take("attention_layers", default=None)
    types = settings.take("attention_types", default=USUAL)
    layers = layers or [name for names, times in types for name in names * times]
    return [KINDS.get(name, name) for name in layers]
