"""Gemma, Gemma 2 (Gemma Team 2024) and the texts of Gemma 3 (Gemma Team 2025).

Their RMS normalizations multiply by 1 + weight, and embeddings are scaled.
"""

import keras

from keras_attention.scores import ScaledDot
from zoo.checkpoints import llama
from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.layer_types import FULL, WINDOWED, windows
from zoo.checkpoints.names import Names, OneLess
from zoo.checkpoints.rotary import rotary, rotary_by_kind, settings_of_rotary
from zoo.readers.text.reading import read_tokenizer

LAYER = "model.layers.{}"
SANDWICH = {  # what Llama calls the normalization of the input of the feed-forward network is here
    "blocks.{}.attention_output_norm": f"{LAYER}.post_attention_layernorm",  # that of an output
    "blocks.{}.feed_forward_norm": f"{LAYER}.pre_feedforward_layernorm",
    "blocks.{}.feed_forward_output_norm": f"{LAYER}.post_feedforward_layernorm",
}
CLASSES = "GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"
IMAGES = "<image_soft_token>"  # of the tokenizer of Gemma 3; the models of texts have no row for it


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(chunk_size_feed_forward=0)
    settings.ignore("cache_implementation", "hidden_act")
    kind = settings.model_type
    key_dim = settings.take("head_dim", default=256)
    epsilon = settings.take("rms_norm_eps", default=1e-6)
    is_tied = settings.take("tie_word_embeddings", default=True)
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        "num_key_value_heads": settings.take("num_key_value_heads"),
        "key_dim": key_dim,
        "query_key_norm": epsilon if kind == "gemma3_text" else None,
        "hidden": settings.take("intermediate_size"),
        "context_length": settings.take("max_position_embeddings"),
        "normalize": "pre" if kind == "gemma" else "sandwich",
        "norm": "rms",
        "epsilon": epsilon,
        "activation": _activation(settings),
        "gated": True,
        "dropout": 0.0,
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "use_bias": ["attention"] if settings.take("attention_bias", default=False) else [],
        "scaled": True,
        "pad_id": -1,
    }
    if settings.take("use_bidirectional_attention", default=False):
        options["is_causal"] = False
    if kind != "gemma":
        options |= _scores(settings, key_dim) | _windows(settings)
    options |= _positions(settings, options)
    table = llama.TABLE | (llama.NORMS if kind == "gemma3_text" else {})
    table |= {} if kind == "gemma" else SANDWICH
    norms = [path for path in table if path.endswith("norm")]
    table |= {path: OneLess(table[path]) for path in norms}
    names = Names(table, llama.BASE, {}, llama.UNUSED)
    return language_plan(settings, folder, options, names, is_tied)


def tokenizer(folder, size):
    return read_tokenizer(folder, size=size, left_out=(IMAGES,))


def _activation(settings):
    """Returns the activation; files of the first Gemma call the approximation by tanh "gelu"."""
    usual = "gelu_pytorch_tanh"
    if settings.model_type != "gemma":
        return activation(settings, settings.take("hidden_activation", default=usual))
    name = settings.take("hidden_activation", "hidden_act", default=usual)
    return activation(settings, usual if name == "gelu" else name)


def _scores(settings, key_dim):
    """Returns the options of scores and logits of the later models."""
    is_second = settings.model_type == "gemma2"
    options = {
        "output_soft_cap": _cap(settings, "final_logit_softcapping", 30.0 if is_second else None)
    }
    divisor = settings.take("query_pre_attn_scalar", default=256)
    if divisor != key_dim:
        options["score"] = keras.saving.serialize_keras_object(ScaledDot(scale=divisor**-0.5))
    if is_second:
        options["soft_cap"] = _cap(settings, "attn_logit_softcapping", 50.0)
    else:
        settings.require(attn_logit_softcapping=None)  # which transformers does not use
    return options


def _cap(settings, name, usual):
    """Returns a cap; a file without it means the usual one, and one with null means none."""
    return settings.take(name, default=None if name in settings else usual)


def _windows(settings):
    """Returns the options of windows, which begin with those of the first layers."""
    every = 2
    if settings.model_type == "gemma2":
        settings.require(sliding_window_pattern=every)  # transformers would read no other one
    else:
        every = settings.take("sliding_window_pattern", default=6)
    number = settings.take("num_hidden_layers")
    kinds = [FULL if (place + 1) % every == 0 else WINDOWED for place in range(number)]
    kinds = settings.take("layer_types", default=kinds)
    return windows(settings, settings.take("sliding_window", default=4096), kinds)


def _positions(settings, options):
    """Returns the options of positions; in Gemma 3, those of layers with a window differ.

    Args:
        settings: `Settings` of the model.
        options: Options of the model, among them those of windows.
    """
    if settings.model_type != "gemma3_text":
        return {"position": rotary(settings, settings_of_rotary(settings))}
    wavelength = settings.take("rope_theta", default=1_000_000.0)
    local = settings.take("rope_local_base_freq", default=10_000.0)
    return rotary_by_kind(settings, options, wavelength, local)
