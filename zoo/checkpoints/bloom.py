"""BLOOM (Scao et al. 2022) and BLOOMZ: attention with linear biases, and a normalized embedding."""

from zoo.checkpoints.gpt2 import ROLES, joint
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.names import Names

LAYER = "transformer.h.{}"
TABLE = {
    "embedding.table": "transformer.word_embeddings.weight",
    "embedding.norm": "transformer.word_embeddings_layernorm",
    "blocks.{}.attention_norm": f"{LAYER}.input_layernorm",
    "blocks.{}.attention.output_projection": f"{LAYER}.self_attention.dense",
    "blocks.{}.feed_forward_norm": f"{LAYER}.post_attention_layernorm",
    "blocks.{}.feed_forward.inner": f"{LAYER}.mlp.dense_h_to_4h",
    "blocks.{}.feed_forward.outer": f"{LAYER}.mlp.dense_4h_to_h",
    "norm": "transformer.ln_f",
}
JOINT = f"{LAYER}.self_attention.query_key_value"  # those of one head after the other
CLASSES = ("BloomForCausalLM",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(
        apply_residual_connection_post_layernorm=False,
        tie_word_embeddings=True,
        chunk_size_feed_forward=0,
    )
    settings.ignore("slow_but_exact", "pretraining_tp", "is_decoder")
    settings.ignore("attention_softmax_in_fp32", "masked_softmax_fusion", "bias_dropout_fusion")
    settings.ignore("offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "n_inner")
    settings.ignore("unk_token_id")
    size = settings.take("hidden_size", "n_embed")
    heads = settings.take("n_head", "num_attention_heads")
    options = {
        "num_layers": settings.take("n_layer", "num_hidden_layers"),
        "size": size,
        "num_heads": heads,
        "hidden": 4 * size,
        "context_length": settings.take("seq_length", default=2048),
        "position": "alibi",
        "embedding_norm": True,
        "activation": "tanh_gelu",
        "dropout": settings.take("hidden_dropout", default=0.0),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("layer_norm_epsilon", default=1e-5),
        "use_bias": True,
        "scaled": False,
        "pad_id": -1,
    }
    parts = {
        f"blocks.{{}}.attention.{role}_projection": part
        for role, part in joint(JOINT, ROLES, size, heads).items()
    }
    return language_plan(settings, folder, options, Names(TABLE | parts, "transformer."))
