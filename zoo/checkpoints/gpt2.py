"""GPT-2 (Radford et al. 2019): a language model with learned positions."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.names import Names, Part

TABLE = {
    "embedding.table": "transformer.wte.weight",
    "embedding.place.embeddings": "transformer.wpe.weight",
    "norm": "transformer.ln_f",
}
BLOCK = {
    "attention_norm": "ln_1",
    "attention.output_projection": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.inner": "mlp.c_fc",
    "feed_forward.outer": "mlp.c_proj",
}
ROLES = ("query", "key", "value")
BASE = "transformer."
UNUSED = (r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)",)  # buffers: the causal mask
CLASSES = ("GPT2LMHeadModel",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(add_cross_attention=False, tie_word_embeddings=True)
    options = stack_options(settings) | {
        "context_length": settings.take("n_positions"),
        "pad_id": -1,
    }
    table = table_of(joint("transformer.h.{}.attn.c_attn", ROLES, options["size"]))
    names = Names(table, BASE, {}, UNUSED, upright=BASE)
    return language_plan(settings, folder, options, names)


def table_of(parts):
    """Returns the table of `Names`.

    Args:
        parts: Dictionary from roles to the `Part`s of the projections.
    """
    block = {f"blocks.{{}}.{ours}": f"transformer.h.{{}}.{name}" for ours, name in BLOCK.items()}
    roles = {f"blocks.{{}}.attention.{role}_projection": part for role, part in parts.items()}
    return TABLE | block | roles


def stack_options(settings):
    """Returns the options of the embedding and the blocks."""
    settings.require(
        scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, chunk_size_feed_forward=0
    )
    settings.ignore("reorder_and_upcast_attn", "n_ctx", "summary_type", "summary_use_proj")
    settings.ignore("summary_activation", "summary_proj_to_labels", "summary_first_dropout")
    settings.ignore("is_decoder", "n_special", "predict_special_tokens")  # of older versions
    settings.ignore("embd_pdrop")  # the embedding has the dropout of the blocks
    size = settings.take("n_embd")
    return {
        "num_layers": settings.take("n_layer"),
        "size": size,
        "num_heads": settings.take("n_head"),
        "hidden": settings.take("n_inner", default=None) or 4 * size,
        "position": "learned",
        "activation": activation(settings, settings.take("activation_function")),
        "dropout": settings.take("resid_pdrop", default=0.1),
        "attention_dropout": settings.take("attn_pdrop", default=0.1),
        "epsilon": settings.take("layer_norm_epsilon", default=1e-5),
        "use_bias": True,
        "scaled": False,
    }


def joint(name, roles, size, heads=1):
    """Returns a dictionary from roles to the `Part`s of a layer that has their projections side by
    side.

    Args:
        name: Name of the layer.
        roles: Names of the projections, in this order.
        size: Size of each.
        heads: Number of heads, if those of one head follow those of another.
    """
    width = size // heads
    return {
        role: Part(name, -1, place * width, (place + 1) * width, heads=heads)
        for place, role in enumerate(roles)
    }
