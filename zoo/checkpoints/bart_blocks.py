"""Names of blocks in the checkpoints of BART's descendants, Marian and Whisper."""

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
