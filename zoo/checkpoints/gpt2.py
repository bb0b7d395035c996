"""GPT-2 (Radford et al. 2019): a language model with learned positions."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.chat import chat_of
from zoo.checkpoints.generation import sampler_of_continuations
from zoo.checkpoints.names import Names, Part
from zoo.checkpoints.plan import Plan

TABLE = {
    "embedding.table": "transformer.wte.weight",
    "embedding.place.embeddings": "transformer.wpe.weight",
    "blocks.{}.attention_norm": "transformer.h.{}.ln_1",
    "blocks.{}.attention.output_projection": "transformer.h.{}.attn.c_proj",
    "blocks.{}.feed_forward_norm": "transformer.h.{}.ln_2",
    "blocks.{}.feed_forward.inner": "transformer.h.{}.mlp.c_fc",
    "blocks.{}.feed_forward.outer": "transformer.h.{}.mlp.c_proj",
    "norm": "transformer.ln_f",
}
JOINT = "transformer.h.{}.attn.c_attn"  # queries, keys and values side by side
TIED = {"lm_head.weight": "transformer.wte.weight"}
UNUSED = (r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)",)  # buffers: the causal mask
CLASSES = ("GPT2LMHeadModel",)


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
        tie_word_embeddings=True,
        chunk_size_feed_forward=0,
    )
    settings.ignore("reorder_and_upcast_attn", "n_ctx", "summary_type", "summary_use_proj")
    settings.ignore("summary_activation", "summary_proj_to_labels", "summary_first_dropout")
    settings.ignore("is_decoder", "n_special", "predict_special_tokens")  # of older versions
    size = settings.take("n_embd")
    options = {
        "num_layers": settings.take("n_layer"),
        "size": size,
        "num_heads": settings.take("n_head"),
        "hidden": settings.take("n_inner", default=None) or 4 * size,
        "context_length": settings.take("n_positions"),
        "position": "learned",
        "activation": activation(settings, settings.take("activation_function")),
        "dropout": settings.take("resid_pdrop", default=0.1),
        "attention_dropout": settings.take("attn_pdrop", default=0.1),
        "epsilon": settings.take("layer_norm_epsilon", default=1e-5),
        "use_bias": True,
        "scaled": False,
        "pad_id": -1,
        "chat": chat_of(folder),
        "sampler": sampler_of_continuations(settings, folder),
    }
    settings.ignore("embd_pdrop")  # the embedding has the dropout of the blocks
    parts = {
        f"blocks.{{}}.attention.{name}_projection": Part(
            JOINT, -1, number * size, (number + 1) * size
        )
        for number, name in enumerate(("query", "key", "value"))
    }
    names = Names(TABLE | parts, "transformer.", TIED, UNUSED, transposed=False)
    return Plan("transformer_lm", options, names, settings.take("vocab_size"))
