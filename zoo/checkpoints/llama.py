"""Llama (Touvron et al. 2023) and its relatives: Mistral, SmolLM2, Qwen 2 and Qwen 3."""

import keras

from keras_attention.positions import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    Rotary,
    YaRN,
)
from zoo.checkpoints.activations import activation
from zoo.checkpoints.chat import chat_of
from zoo.checkpoints.generation import sampler_of_continuations
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan

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
NORMS = {  # of Qwen 3
    "blocks.{}.attention.query_norm": "model.layers.{}.self_attn.q_norm",
    "blocks.{}.attention.key_norm": "model.layers.{}.self_attn.k_norm",
}
UNUSED = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",)  # a buffer of older versions
CLASSES = "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"
OF_QUERIES = ["query", "key", "value"]


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(chunk_size_feed_forward=0, rope_interleaved=False, use_mrope=False)
    kind = settings.model_type
    heads = settings.take("num_attention_heads")
    epsilon = settings.take("rms_norm_eps", default=1e-6)
    is_tied = settings.take("tie_word_embeddings", default=False)
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": heads,
        "num_key_value_heads": settings.take("num_key_value_heads", default=heads),
        "key_dim": settings.take("head_dim", default=128 if kind == "qwen3" else None),
        "query_key_norm": epsilon if kind == "qwen3" else None,
        "hidden": settings.take("intermediate_size"),
        "context_length": settings.take("max_position_embeddings"),
        "window": _window(settings),
        "position": keras.saving.serialize_keras_object(_position(settings)),
        "activation": activation(settings, settings.take("hidden_act", default="silu")),
        "gated": True,
        "norm": "rms",
        "dropout": 0.0,
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": epsilon,
        "use_bias": _biases(settings),
        "scaled": False,
        "tied": is_tied,
        "pad_id": -1,
        "chat": chat_of(folder),
        "sampler": sampler_of_continuations(settings, folder),
    }
    table = TABLE | (NORMS if kind == "qwen3" else {})
    tied = {"lm_head.weight": "model.embed_tokens.weight"}
    if not is_tied:
        table, tied = {**table, "embedding.output_table": "lm_head.weight"}, {}
    names = Names(table, "", tied, UNUSED)
    return Plan("transformer_lm", options, names, settings.take("vocab_size"))


def _biases(settings):
    of_attention = settings.take("attention_bias", default=False)
    biases = ["attention"] if of_attention else []
    if settings.model_type == "qwen2":
        biases = list(OF_QUERIES)
    return biases + (["feed_forward"] if settings.take("mlp_bias", default=False) else [])


def _window(settings):
    """Returns the number of tokens that a token attends to, `None` for all."""
    window = settings.take("sliding_window", default=None)
    used = settings.take("use_sliding_window", default=settings.model_type == "mistral")
    settings.ignore("max_window_layers")
    kinds = set(settings.take("layer_types", default=None) or [])
    if not used or window is None:
        return None
    if settings.model_type != "mistral" and kinds != {"sliding_attention"}:
        raise ValueError(
            f"{settings.path} has a window in some of its layers only, which is not implemented."
        )
    return window


def _position(settings):
    """Returns the rotary positions."""
    old = settings.take("rope_scaling", default=None) or {}
    found = dict(settings.take("rope_parameters", default=None) or old)
    theta = found.pop("rope_theta", None) or settings.take("rope_theta", default=10000.0)
    settings.ignore("rope_theta")
    kind = found.pop("rope_type", None) or found.pop("type", "default")
    found.pop("type", None)
    length = settings.take("max_position_embeddings")
    original = found.pop("original_max_position_embeddings", None) or length
    scaling = _scaling(settings, kind, found, length, original)
    left = {name: value for name, value in found.items() if value is not None}
    fraction = left.pop("partial_rotary_factor", 1.0)
    if left:
        raise ValueError(
            f"{settings.path} has settings of rotary positions that are not implemented: {left}."
        )
    return Rotary(theta, fraction=fraction, pairs="halves", scaling=scaling)


def _scaling(settings, kind, found, length, original):
    """Returns how rotary positions are scaled, and removes its settings from those found.

    Args:
        settings: `Settings` of the model.
        kind: What the file calls it.
        found: Dictionary of the settings of rotary positions.
        length: Number of positions of the model.
        original: Number of positions that it was trained for before.
    """

    def needed(name):
        if found.get(name) is None:
            raise ValueError(
                f"{settings.path} scales rotary positions by {kind!r}, which needs a {name!r}. "
                f"Received: {found}."
            )
        return found.pop(name)

    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(factor=needed("factor"))
    if kind == "dynamic":
        return DynamicScaling(factor=needed("factor"), original_length=length)
    if kind == "llama3":
        return Llama3Scaling(
            factor=needed("factor"),
            original_length=original,
            low=needed("low_freq_factor"),
            high=needed("high_freq_factor"),
        )
    if kind == "yarn":
        return YaRN(
            factor=needed("factor"),
            original_length=original,
            fast_rotations=found.pop("beta_fast", None) or 32.0,
            slow_rotations=found.pop("beta_slow", None) or 1.0,
            attention_factor=found.pop("attention_factor", None),
        )
    raise ValueError(
        f"{settings.path} scales rotary positions by {kind!r}, which is not implemented. "
        "Implemented: linear, dynamic, llama3, yarn."
    )
