"""Phi (Gunasekar et al. 2023; Phi-1, 1.5 and 2): both parts of a block read one normalization."""

from zoo.checkpoints import llama
from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.names import Names
from zoo.checkpoints.rotary import rotary, settings_of_rotary

LAYER = "model.layers.{}"
TABLE = {
    **{name: tensor for name, tensor in llama.TABLE.items() if "feed_forward" not in name},
    "blocks.{}.attention.output_projection": f"{LAYER}.self_attn.dense",
    "blocks.{}.feed_forward.inner": f"{LAYER}.mlp.fc1",
    "blocks.{}.feed_forward.outer": f"{LAYER}.mlp.fc2",
    "norm": "model.final_layernorm",
}
CLASSES = ("PhiForCausalLM",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(chunk_size_feed_forward=0, qk_layernorm=False)
    settings.ignore("embd_pdrop")  # here embeddings are dropped like outputs, in training alone
    heads = settings.take("num_attention_heads")
    fraction = settings.take("partial_rotary_factor", default=0.5)
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": heads,
        "num_key_value_heads": settings.take("num_key_value_heads", default=heads),
        "hidden": settings.take("intermediate_size"),
        "context_length": settings.take("max_position_embeddings"),
        "position": rotary(settings, settings_of_rotary(settings), fraction),
        "parallel": True,
        "shared_norm": True,
        "activation": activation(settings, settings.take("hidden_act", default="gelu_new")),
        "dropout": settings.take("resid_pdrop", default=0.0),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("layer_norm_eps", default=1e-5),
        "use_bias": True,
        "output_bias": True,
        "scaled": False,
        "pad_id": -1,
    }
    is_tied = settings.take("tie_word_embeddings", default=False)
    names = Names(TABLE, llama.BASE, {}, llama.UNUSED)
    return language_plan(settings, folder, options, names, is_tied)
