"""ModernBERT (Warner et al. 2024): rotary positions, windows, gated feed-forward, no biases."""

import keras

from keras_attention.positions import Rotary
from zoo.checkpoints.activations import activation
from zoo.checkpoints.encoders import encoder_plan, head_of, joint_projections
from zoo.checkpoints.names import Names, Part

HEAD = {"transform": "head.dense", "transform_norm": "head.norm", "output_layer": "classifier"}
HEADS = {
    "labels": HEAD,
    "tags": HEAD,
    "span": HEAD,
    "masked": {
        "transform": "head.dense",
        "transform_norm": "head.norm",
        "output_bias": "decoder.bias",
    },
    "embedding": {},
}
TIED = {"decoder.weight": "model.embeddings.tok_embeddings.weight"}
GLOBAL, LOCAL = "full_attention", "sliding_attention"


def plan(settings, folder):
    settings.require(
        attention_bias=False,
        mlp_bias=False,
        norm_bias=False,
        classifier_bias=False,
        decoder_bias=True,
        attention_dropout=0.0,
        embedding_dropout=0.0,
        position_embedding_type="absolute",  # which older files say without a meaning
    )
    settings.ignore(
        "cls_token_id",
        "deterministic_flash_attn",
        "initializer_cutoff_factor",
        "layer_norm_eps",
        "reference_compile",
        "repad_logits_with_grad",
        "sep_token_id",
        "sparse_pred_ignore_index",
        "sparse_prediction",
    )
    head, pooling = head_of(settings, folder), _pooling(settings)
    size, hidden = settings.take("hidden_size"), settings.take("intermediate_size")
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": size,
        "num_heads": settings.take("num_attention_heads"),
        "hidden": hidden,
        "max_length": settings.take("max_position_embeddings"),
        "normalize": "pre",
        "norm": "layer_without_bias",
        "first_norm": False,
        "epsilon": settings.take("norm_eps", default=1e-5),
        "position": _position(settings, LOCAL, "local_rope_theta", 10_000.0),
        "global_position": _position(settings, GLOBAL, "global_rope_theta", 160_000.0),
        "global_every": _global_every(settings),
        "window": settings.take("local_attention", default=128) // 2,
        "activation": activation(settings, settings.take("hidden_activation", default="gelu")),
        "gated": True,
        "use_bias": False,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "hidden_dropout": settings.take("mlp_dropout", default=0.0),
        "transform": True,
        "masked_activation": activation(
            settings, settings.take("classifier_activation", default="gelu")
        ),
        "pooling": "mean" if head == "embedding" else pooling,
    }
    block = "model.layers.{}."
    gated = block + "mlp.Wi"
    table = {
        "embedding.tokens": "model.embeddings.tok_embeddings.weight",
        "embedding.norm": "model.embeddings.norm",
        "blocks.{}.attention_norm": block + "attn_norm",
        **joint_projections(block + "attn.Wqkv", size),
        "blocks.{}.attention.output_projection": block + "attn.Wo",
        "blocks.{}.feed_forward_norm": block + "mlp_norm",
        "blocks.{}.feed_forward.gate": Part(gated, -1, 0, hidden),
        "blocks.{}.feed_forward.inner": Part(gated, -1, hidden, None),
        "blocks.{}.feed_forward.outer": block + "mlp.Wo",
        "norm": "model.final_norm",
    }
    return encoder_plan(settings, folder, head, options, HEADS, Names(table, "model.", TIED))


def _position(settings, kind, older, usual):
    """Returns the rotary positions of a kind of blocks."""
    found = dict((settings.take("rope_parameters", default=None) or {}).get(kind) or {})
    theta = found.pop("rope_theta", None) or settings.take(older, default=usual)
    settings.ignore(older)
    if found.pop("rope_type", "default") != "default" or found:
        raise ValueError(
            f"{settings.path} scales the rotary positions of its {kind}, which is not implemented."
        )
    return keras.saving.serialize_keras_object(Rotary(theta, pairs="halves"))


def _global_every(settings):
    """Returns every how many blocks one sees all tokens."""
    number = settings.take("num_hidden_layers")
    every = settings.take("global_attn_every_n_layers", default=3)
    kinds = settings.take("layer_types", default=None)
    if kinds is None:
        return every
    every = kinds.index(GLOBAL, 1) if kinds.count(GLOBAL) > 1 else number
    if kinds != [LOCAL if place % every else GLOBAL for place in range(number)]:
        raise ValueError(
            f"{settings.path} has layer_types={kinds}, which is not implemented: the first layer "
            f"and then every n-th should be of {GLOBAL}, the others of {LOCAL}."
        )
    return every


def _pooling(settings):
    """Returns how a classifier pools."""
    kind = settings.take("classifier_pooling", default="cls")
    known = {"cls": "first", "mean": "mean"}
    if kind not in known:
        raise ValueError(
            f"{settings.path} says classifier_pooling={kind!r}, which is not implemented. "
            f"Implemented: {', '.join(known)}."
        )
    return known[kind]
