"""OPT (Zhang et al. 2022): a language model whose learned positions begin at 2."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.names import Names

LAYER = "model.decoder.layers.{}"
TABLE = {
    "embedding.table": "model.decoder.embed_tokens.weight",
    "embedding.place.embeddings": "model.decoder.embed_positions.weight",
    "blocks.{}.attention_norm": f"{LAYER}.self_attn_layer_norm",
    "blocks.{}.attention.query_projection": f"{LAYER}.self_attn.q_proj",
    "blocks.{}.attention.key_projection": f"{LAYER}.self_attn.k_proj",
    "blocks.{}.attention.value_projection": f"{LAYER}.self_attn.v_proj",
    "blocks.{}.attention.output_projection": f"{LAYER}.self_attn.out_proj",
    "blocks.{}.feed_forward_norm": f"{LAYER}.final_layer_norm",
    "blocks.{}.feed_forward.inner": f"{LAYER}.fc1",
    "blocks.{}.feed_forward.outer": f"{LAYER}.fc2",
    "norm": "model.decoder.final_layer_norm",
}
FIRST_POSITION = 2
CLASSES = ("OPTForCausalLM",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    size = settings.take("hidden_size")
    # Only opt-350m differs: it normalizes outputs, and its embedding is smaller.
    settings.require(do_layer_norm_before=True, word_embed_proj_dim=size)
    settings.require(_remove_final_layer_norm=False, layer_norm_elementwise_affine=True)
    settings.require(chunk_size_feed_forward=0)
    settings.ignore("layerdrop", "activation_dropout", "init_std", "is_decoder", "prefix")
    is_tied = settings.take("tie_word_embeddings", default=True)
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": size,
        "num_heads": settings.take("num_attention_heads"),
        "hidden": settings.take("ffn_dim"),
        "context_length": settings.take("max_position_embeddings"),
        "first_position": FIRST_POSITION,
        "position": "learned",
        "activation": activation(settings, settings.take("activation_function", default="relu")),
        "dropout": settings.take("dropout", default=0.1),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": 1e-5,
        "use_bias": settings.take("enable_bias", default=True),
        "scaled": False,
        "pad_id": -1,
    }
    return language_plan(settings, folder, options, Names(TABLE, "model."), is_tied)
