"""Llama (Touvron et al. 2023) and its relatives: Mistral, SmolLM 2 and 3, Qwen 2 and 3."""

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
UNUSED = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",)  # a buffer of older versions
BASE = "model."
CLASSES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "SmolLM3ForCausalLM",
)
OF_QUERIES = ["query", "key", "value"]


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    kind = settings.model_type
    wavelength = 2_000_000.0 if kind == "smollm3" else 10_000.0
    options = {
        **_windows(settings),
        "position": rotary(settings, settings_of_rotary(settings, usual=wavelength)),
    }
    table = TABLE
    if kind == "qwen3":
        options["query_key_norm"] = settings.take("rms_norm_eps", default=1e-6)
        table = TABLE | NORMS
    if kind == "smollm3":
        options["layers_without_position"] = _layers_without_position(settings)
    return plan_of(settings, folder, options, table)


def plan_of(settings, folder, options, table=TABLE):
    """Returns the `Plan` of a Llama, or of a relative of it.

    Args:
        settings: `Settings`.
        folder: The folder of the checkpoint.
        options: Options of the stack, in addition to those that all of them have; among them are
            `position` and those of windows.
        table: Table of `Names`.
    """
    settings.require(chunk_size_feed_forward=0, rope_interleaved=False, use_mrope=False)
    settings.ignore("max_sequence_length")  # of Vicuna and others, without an effect
    kind = settings.model_type
    heads = settings.take("num_attention_heads")
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": heads,
        "num_key_value_heads": settings.take("num_key_value_heads", default=heads),
        "key_dim": settings.take("head_dim", default=128 if kind == "qwen3" else None),
        "hidden": settings.take("intermediate_size"),
        "context_length": settings.take("max_position_embeddings"),
        "activation": activation(settings, settings.take("hidden_act", default="silu")),
        "gated": True,
        "norm": "rms",
        "dropout": 0.0,
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("rms_norm_eps", default=1e-6),
        "use_bias": _biases(settings),
        "scaled": False,
        "pad_id": -1,
        **options,
    }
    is_tied = settings.take("tie_word_embeddings", default=kind == "smollm3")
    return language_plan(settings, folder, options, Names(table, BASE, {}, UNUSED), is_tied)


def _biases(settings):
    of_attention = settings.take("attention_bias", default=False)
    biases = ["attention"] if of_attention else []
    if settings.model_type == "qwen2":
        biases = list(OF_QUERIES)
    return biases + (["feed_forward"] if settings.take("mlp_bias", default=False) else [])


def _layers_without_position(settings):
    """Returns the numbers of the blocks without rotary positions, or `None`."""
    every = settings.take("no_rope_layer_interval", default=4)
    number = settings.take("num_hidden_layers")
    usual = [(place + 1) % every for place in range(number)]
    has_position = settings.take("no_rope_layers", default=usual)
    return [place for place in range(number) if not has_position[place]] or None


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
    if settings.model_type == "smollm3":
        without_position = _layers_without_position(settings) or ()
        usual = [WINDOWED if place in without_position else FULL for place in range(number)]
    return windows(settings, window, kinds or usual)
