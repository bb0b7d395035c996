"""What the checkpoints of BART and its descendants, Marian and Whisper, have in common."""

from zoo.checkpoints.activations import activation

_COPIES = "lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
TIED = dict.fromkeys(_COPIES, "model.shared.weight")  # of BART and Marian
_OF_TRAINING = "init_std", "encoder_layerdrop", "decoder_layerdrop"
_OF_OTHERS = "classif_dropout", "add_cross_attention", "num_hidden_layers"  # other classes

_PARTS = {  # of a block: the name of a layer here, and there
    "query_projection": "q_proj",
    "key_projection": "k_proj",
    "value_projection": "v_proj",
    "output_projection": "out_proj",
}
_FEED_FORWARD = {
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
_ATTENTIONS = {
    "encoder": {"attention": "self_attn"},
    "decoder": {"self_attention": "self_attn", "cross_attention": "encoder_attn"},
}


def table_of_blocks():
    """Returns the part of the table of `Names` for the blocks of the encoder and the decoder."""
    table = {}
    for stack, attentions in _ATTENTIONS.items():
        layer = f"model.{stack}.layers.{{}}"
        for ours, theirs in attentions.items():
            for part, name in _PARTS.items():
                table[f"{stack}.{{}}.{ours}.{part}"] = f"{layer}.{theirs}.{name}"
            table[f"{stack}.{{}}.{ours}_norm"] = f"{layer}.{theirs}_layer_norm"
        for part, name in _FEED_FORWARD.items():
            table[f"{stack}.{{}}.{part}"] = f"{layer}.{name}"
    return table


def stack_options(settings, usual_activation, dropout=0.1):
    """Returns the options of the encoder and the decoder.

    Args:
        settings: `Settings`.
        usual_activation: The activation if the file names none.
        dropout: The dropout rate if the file names none.
    """
    settings.ignore(*_OF_TRAINING, *_OF_OTHERS)
    name = settings.take("activation_function", default=usual_activation)
    return {
        "num_layers": settings.take("encoder_layers"),
        "decoder_layers": settings.take("decoder_layers"),
        "size": settings.take("d_model"),
        "num_heads": settings.take_same("encoder_attention_heads", "decoder_attention_heads"),
        "hidden": settings.take_same("encoder_ffn_dim", "decoder_ffn_dim"),
        "activation": activation(settings, name),
        "dropout": settings.take("dropout", default=dropout),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "hidden_dropout": settings.take("activation_dropout", default=0.0),
    }
