"""Llama (Touvron et al. 2023) and its relatives: Mistral, SmolLM2, Qwen 2 and 3, and OLMo 2."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.layer_types import FULL, WINDOWED, windows
from zoo.checkpoints.names import Names
from zoo.checkpoints.rotary import rotary, settings_of_rotary

TABLE = {
    "embedding.table": "model.embed_tokens.weight",
    "blocks.{}.attention_norm": "model.layers.{}.input_layernorm",
    "blocks.{}.attention.query_projection": "model.layers.{}.self_attn.q_proj",
    "blocks.{}.attention.key_projection": "model.layers.{}.self_attn.k_proj",
    "blocks.{}.attention.value_projection": "model.layers.{}.self_attn.v_proj",
    "blocks.{}.attention.output_projection": "model.layers.{}.self_attn.o_proj",
    "blocks.{}.feed_forward_norm": "model.layers.{}.post_attention_layernorm",
    "blocks.{}.feed_forward.gate": "model.layers.{}.mlp.gate_proj",
    "blocks.{}.feed_forward.inner": "model.layers.{}.mlp.up_proj",
    "blocks.{}.feed_forward.outer": "model.layers.{}.mlp.down_proj",
    "norm": "model.norm",
}
NORMS = {  # of queries and keys
    "blocks.{}.attention.query_norm": "model.layers.{}.self_attn.q_norm",
    "blocks.{}.attention.key_norm": "model.layers.{}.self_attn.k_norm",
}
OLMO = {  # of OLMo 2, besides those
    "blocks.{}.attention_norm": "model.layers.{}.post_attention_layernorm",
    "blocks.{}.feed_forward_norm": "model.layers.{}.post_feedforward_layernorm",
}
UNUSED = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",)  # a buffer of older versions
BASE = "model."
CLASSES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Olmo2ForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
)
OF_QUERIES = ["query", "key", "value"]


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(chunk_size_feed_forward=0, rope_interleaved=False, use_mrope=False)
    settings.ignore("max_sequence_length")  # of Vicuna and others, without an effect
    kind = settings.model_type
    is_olmo, has_norms = kind == "olmo2", kind in ("olmo2", "qwen3")
    heads = settings.take("num_attention_heads")
    epsilon = settings.take("rms_norm_eps", default=1e-6)
    is_tied = settings.take("tie_word_embeddings", default=False)
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": heads,
        "num_key_value_heads": settings.take("num_key_value_heads", default=heads),
        "key_dim": settings.take("head_dim", default=128 if kind == "qwen3" else None),
        "query_key_norm": epsilon if has_norms else None,
        "joint_query_key_norm": is_olmo,
        "hidden": settings.take("intermediate_size"),
        "context_length": settings.take("max_position_embeddings"),
        **_windows(settings),
        "position": rotary(settings, settings_of_rotary(settings)),
        "activation": activation(settings, settings.take("hidden_act", default="silu")),
        "gated": True,
        "norm": "rms",
        "normalize": "output" if is_olmo else "pre",
        "dropout": 0.0,
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": epsilon,
        "use_bias": _biases(settings),
        "scaled": False,
        "pad_id": -1,
    }
    table = TABLE | (NORMS if has_norms else {}) | (OLMO if is_olmo else {})
    return language_plan(settings, folder, options, Names(table, BASE, {}, UNUSED), is_tied)


def _biases(settings):
    of_attention = settings.take("attention_bias", default=False)
    biases = ["attention"] if of_attention else []
    if settings.model_type == "qwen2":
        biases = list(OF_QUERIES)
    return biases + (["feed_forward"] if settings.take("mlp_bias", default=False) else [])


def _windows(settings):
    """Returns the options of windows."""
    window = settings.take("sliding_window", default=None)
    number = settings.take("num_hidden_layers")
    first = settings.take("max_window_layers", default=28)
    kinds = settings.take("layer_types", default=None)
    is_mistral = settings.model_type == "mistral"
    if not settings.take("use_sliding_window", default=is_mistral):
        return {}
    if is_mistral:
        return windows(settings, window, kinds or [WINDOWED] * number)
    usual = [FULL if place < first else WINDOWED for place in range(number)]
    return windows(settings, window, kinds or usual)
