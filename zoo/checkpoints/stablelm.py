"""StableLM (Bellagente et al. 2024): a Llama with layer norms, rotated in a quarter of a head."""

from zoo.checkpoints import llama
from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.names import Names
from zoo.checkpoints.rotary import rotary, settings_of_rotary

CLASSES = ("StableLmForCausalLM",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(chunk_size_feed_forward=0, hidden_dropout=0.0, qk_layernorm=False)
    # Of older versions, without an effect in transformers.
    settings.ignore("norm_eps", "num_heads", "rope_pct", "rotary_scaling_factor")
    is_parallel = settings.take("use_parallel_residual", default=False)
    has_biases = settings.take("use_qkv_bias", default=False)
    fraction = settings.take("partial_rotary_factor", default=0.25)
    is_tied = settings.take("tie_word_embeddings", default=False)
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        "num_key_value_heads": settings.take("num_key_value_heads", default=None),
        "hidden": settings.take("intermediate_size"),
        "context_length": settings.take("max_position_embeddings"),
        "position": rotary(settings, settings_of_rotary(settings), fraction),
        "parallel": is_parallel,
        "shared_norm": is_parallel,
        "activation": activation(settings, settings.take("hidden_act", default="silu")),
        "gated": True,
        "dropout": 0.0,
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("layer_norm_eps", default=1e-5),
        "use_bias": llama.OF_QUERIES if has_biases else False,
        "scaled": False,
        "pad_id": -1,
    }
    table = dict(llama.TABLE)
    if is_parallel:
        del table["blocks.{}.feed_forward_norm"]
    names = Names(table, llama.BASE, {}, llama.UNUSED)
    return language_plan(settings, folder, options, names, is_tied)
