"""GPT-NeoX (Black et al. 2022), such as Pythia: attention and feed-forward side by side."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.gpt2 import ROLES, joint
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.names import Names
from zoo.checkpoints.rotary import rotary, settings_of_rotary

LAYER = "gpt_neox.layers.{}"
TABLE = {
    "embedding.table": "gpt_neox.embed_in.weight",
    "blocks.{}.attention_norm": f"{LAYER}.input_layernorm",
    "blocks.{}.attention.output_projection": f"{LAYER}.attention.dense",
    "blocks.{}.feed_forward_norm": f"{LAYER}.post_attention_layernorm",
    "blocks.{}.feed_forward.inner": f"{LAYER}.mlp.dense_h_to_4h",
    "blocks.{}.feed_forward.outer": f"{LAYER}.mlp.dense_4h_to_h",
    "norm": "gpt_neox.final_layer_norm",
}
JOINT = f"{LAYER}.attention.query_key_value"  # query, key and value of one head after the other
UNUSED = (  # buffers of older versions
    r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",
)
OUTPUT = "embed_out.weight"
CLASSES = ("GPTNeoXForCausalLM",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(chunk_size_feed_forward=0)
    settings.ignore("is_decoder")
    size, heads = settings.take("hidden_size"), settings.take("num_attention_heads")
    has_biases = settings.take("attention_bias", default=True)
    is_tied = settings.take("tie_word_embeddings", default=False)
    found = settings_of_rotary(settings, "rotary_emb_base")
    fraction = found.get("partial_rotary_factor") or settings.take("rotary_pct", default=0.25)
    settings.ignore("rotary_pct")
    # transformers 4.46 to 4.57 also wrote both under other names, but never read those.
    settings.require(rope_theta=found["rope_theta"], partial_rotary_factor=fraction)
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": size,
        "num_heads": heads,
        "hidden": settings.take("intermediate_size"),
        "context_length": settings.take("max_position_embeddings"),
        "position": rotary(settings, found, fraction),
        "parallel": settings.take("use_parallel_residual", default=True),
        "activation": activation(settings, settings.take("hidden_act", default="gelu")),
        "dropout": settings.take("hidden_dropout", default=0.0),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "epsilon": settings.take("layer_norm_eps", default=1e-5),
        "use_bias": True if has_biases else ["feed_forward"],
        "scaled": False,
        "pad_id": -1,
    }
    parts = {
        f"blocks.{{}}.attention.{role}_projection": part
        for role, part in joint(JOINT, ROLES, size, heads).items()
    }
    names = Names(TABLE | parts, "gpt_neox.", {}, UNUSED)
    return language_plan(settings, folder, options, names, is_tied, OUTPUT)
