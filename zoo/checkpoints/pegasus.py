"""PEGASUS (Zhang et al. 2020): summaries."""

from zoo.checkpoints.bart_blocks import TIED, stack_options, table_of_blocks
from zoo.checkpoints.generation import sampler_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.readers.text.reading import read_tokenizer

TABLE = table_of_blocks() | {
    "embedding.table": "model.shared.weight",
    "embedding.bias": "final_logits_bias",
    "encoder_norm": "model.encoder.layer_norm",
    "decoder_norm": "model.decoder.layer_norm",
}
UNUSED = (r"model\.(encoder|decoder)\.embed_positions\.weight",)  # sinusoids
CLASSES = ("PegasusForConditionalGeneration",)


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(
        add_bias_logits=False,
        add_final_layer_norm=True,
        chunk_size_feed_forward=0,
        do_blenderbot_90_layernorm=False,
        extra_pos_embeddings=0,
        force_bos_token_to_be_generated=False,
        is_decoder=False,
        normalize_before=True,
        normalize_embedding=False,
        static_position_embeddings=True,
        tie_word_embeddings=True,
    )
    longest = settings.take("max_position_embeddings", default=1024)
    options = {
        **stack_options(settings, "gelu"),
        "scaled": settings.take("scale_embedding", default=False),
        "max_length": longest,
        "pad_id": settings.take("pad_token_id", default=0),
        "max_source_length": longest,
        "sampler": sampler_of(settings, folder, counts_start=True),
    }
    if settings.take("decoder_start_token_id", default=0) != options["pad_id"]:
        raise ValueError(
            f"{settings.path} begins answers with another token than that of padding, which is not "
            "implemented."
        )
    names = Names(TABLE, "", TIED, UNUSED)
    return Plan("pegasus", options, names, settings.take("vocab_size"))


def tokenizer(folder, size):
    """Returns the tokenizer; outputs begin with the padding token."""
    return read_tokenizer(folder, size=size, start="<pad>")
