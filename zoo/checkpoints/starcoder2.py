"""StarCoder2 (Lozhkov et al. 2024), which writes code: a Llama with biases and layer norms."""

from zoo.checkpoints import llama
from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.layer_types import WINDOWED, windows
from zoo.checkpoints.names import Names
from zoo.checkpoints.rotary import rotary, settings_of_rotary

NETWORK = {
    "blocks.{}.feed_forward.inner": "model.layers.{}.mlp.c_fc",
    "blocks.{}.feed_forward.outer": "model.layers.{}.mlp.c_proj",
}
TABLE = {name: tensor for name, tensor in llama.TABLE.items() if "feed_forward." not in name}
CLASSES = ("Starcoder2ForCausalLM",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(chunk_size_feed_forward=0, mlp_type="default", norm_type="layer_norm")
    settings.ignore("embedding_dropout")  # here embeddings are dropped like outputs
    number = settings.take("num_hidden_layers")
    is_tied = settings.take("tie_word_embeddings", default=True)
    options = {
        "num_layers": number,
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        "num_key_value_heads": settings.take("num_key_value_heads", default=2),
        "hidden": settings.take("intermediate_size"),
        "context_length": settings.take("max_position_embeddings"),
        **windows(settings, settings.take("sliding_window", default=None), [WINDOWED] * number),
        "position": rotary(settings, settings_of_rotary(settings)),
        "activation": activation(settings, settings.take("hidden_act", default="gelu_new")),
        "dropout": settings.take("residual_dropout", default=0.0),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("norm_epsilon", default=1e-5),
        "use_bias": settings.take("use_bias", default=True),
        "scaled": False,
        "pad_id": -1,
    }
    names = Names(TABLE | NETWORK, llama.BASE, {}, llama.UNUSED)
    return language_plan(settings, folder, options, names, is_tied)
