"""Longformer (Beltagy et al. 2020): RoBERTa with windows and global tokens."""

from zoo.checkpoints.bert import stack_options, with_prefix
from zoo.checkpoints.encoders import encoder_plan, head_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.roberta import HEADS
from zoo.checkpoints.tensor_files import TensorFiles

SELF = "longformer.encoder.layer.{}.attention.self."
OF_TOKENS = {
    f"blocks.{{}}.attention.global_{name}_projection": f"{SELF}{name}_global"
    for name in ("query", "key", "value")
}
TIED = {
    "lm_head.decoder.weight": "longformer.embeddings.word_embeddings.weight",
    "lm_head.decoder.bias": "lm_head.bias",
}
UNUSED = (r"(longformer\.)?pooler\.dense\.(weight|bias)",)
UNUSED_OF_TOKENS = r"(longformer\.)?encoder\.layer\.\d+\.attention\.self\.\w+_global\.(weight|bias)"
MASKED = "lm_head.dense.weight"


def plan(settings, folder):
    if not settings.architecture:
        is_masked = MASKED in TensorFiles(folder).shapes
        settings.assume_class("LongformerForMaskedLM" if is_masked else "LongformerModel")
    settings.require(
        attention_mode="longformer",
        ignore_attention_mask=False,
        is_decoder=False,
        add_cross_attention=False,
    )
    settings.ignore("onnx_export")
    head = head_of(settings, folder)
    options = stack_options(settings)
    offset = settings.take("pad_token_id", default=1) + 1
    options |= {
        "masked_activation": "gelu",
        "num_segments": settings.take("type_vocab_size", default=2),
        "max_length": settings.take("max_position_embeddings") - offset,
        "position_offset": offset,
        "windows": _windows(settings),
        "pooler": "tanh" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    if head == "span":
        options["separator_id"] = settings.take("sep_token_id", default=2)
    table, unused, carried = with_prefix("longformer."), UNUSED, ()
    if head in ("labels", "span"):
        table |= OF_TOKENS
    else:  # without global tokens, their projections have no effect
        unused = *UNUSED, UNUSED_OF_TOKENS
        carried = tuple(
            f"{name.format(layer)}.{kind}"
            for layer in range(options["num_layers"])
            for name in OF_TOKENS.values()
            for kind in ("weight", "bias")
        )
    names = Names(table, "longformer.", TIED, unused, carried=carried)
    return encoder_plan(settings, folder, head, options, HEADS, names)


def _windows(settings):
    """Returns the window of each block."""
    windows = settings.take("attention_window", default=512)
    layers = settings.take("num_hidden_layers")
    return [windows] * layers if isinstance(windows, int) else windows
