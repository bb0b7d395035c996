"""Phi-3 (Abdin et al. 2024) and the large Phi-4: a Llama whose projections are joined."""

from zoo.checkpoints import llama
from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.layer_types import WINDOWED, windows
from zoo.checkpoints.names import Names, Part
from zoo.checkpoints.rotary import rotary, settings_of_rotary

LAYER = "model.layers.{}"
QUERY_KEY_VALUE = f"{LAYER}.self_attn.qkv_proj"  # all queries, then all keys, then all values
GATE_AND_INNER = f"{LAYER}.mlp.gate_up_proj"
CLASSES = ("Phi3ForCausalLM",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(chunk_size_feed_forward=0, attention_bias=False, mlp_bias=False)
    settings.require(lm_head_bias=False)
    settings.ignore("embd_pdrop")
    number, size = settings.take("num_hidden_layers"), settings.take("hidden_size")
    heads, hidden = settings.take("num_attention_heads"), settings.take("intermediate_size")
    groups = settings.take("num_key_value_heads", default=heads)
    key_dim = settings.take("head_dim", default=size // heads)
    is_tied = settings.take("tie_word_embeddings", default=False)
    options = {
        "num_layers": number,
        "size": size,
        "num_heads": heads,
        "num_key_value_heads": groups,
        "key_dim": key_dim,
        "hidden": hidden,
        "context_length": settings.take("max_position_embeddings"),
        **windows(settings, settings.take("sliding_window", default=None), [WINDOWED] * number),
        "position": _position(settings),
        "activation": activation(settings, settings.take("hidden_act", default="silu")),
        "gated": True,
        "norm": "rms",
        "dropout": settings.take("resid_pdrop", default=0.0),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("rms_norm_eps", default=1e-5),
        "use_bias": False,
        "scaled": False,
        "pad_id": -1,
    }
    keys, values = heads * key_dim, (heads + groups) * key_dim  # where they begin
    attention, network = "blocks.{}.attention", "blocks.{}.feed_forward"
    table = llama.TABLE | {
        f"{attention}.query_projection": Part(QUERY_KEY_VALUE, -1, 0, keys),
        f"{attention}.key_projection": Part(QUERY_KEY_VALUE, -1, keys, values),
        f"{attention}.value_projection": Part(QUERY_KEY_VALUE, -1, values, None),
        f"{network}.gate": Part(GATE_AND_INNER, -1, 0, hidden),
        f"{network}.inner": Part(GATE_AND_INNER, -1, hidden, None),
    }
    names = Names(table, llama.BASE, {}, llama.UNUSED)
    return language_plan(settings, folder, options, names, is_tied)


def _position(settings):
    """Returns the rotary positions; here "su" and "yarn" are older names of LongRoPE."""
    found = settings_of_rotary(settings)
    original = settings.take("original_max_position_embeddings", default=4096)
    if (found.get("rope_type") or found.get("type")) in ("longrope", "su", "yarn"):
        found |= {"rope_type": "longrope", "original_max_position_embeddings": original}
    return rotary(settings, found, settings.take("partial_rotary_factor", default=1.0))
