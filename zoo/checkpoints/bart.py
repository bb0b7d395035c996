"""BART (Lewis et al. 2020) and models of its structure, such as DistilBART."""

from zoo.checkpoints.bart_blocks import TIED, stack_options, table_of_blocks
from zoo.checkpoints.generation import sampler_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.readers.text.reading import read_tokenizer

TABLE = table_of_blocks() | {
    "embedding.table": "model.shared.weight",
    "embedding.bias": "final_logits_bias",
    "encoder_entry.place.embeddings": "model.encoder.embed_positions.weight",
    "encoder_entry.norm": "model.encoder.layernorm_embedding",
    "decoder_entry.place.embeddings": "model.decoder.embed_positions.weight",
    "decoder_entry.norm": "model.decoder.layernorm_embedding",
}
CLASSES = ("BartForConditionalGeneration",)


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(
        add_bias_logits=False,
        add_final_layer_norm=False,
        chunk_size_feed_forward=0,
        is_decoder=False,
        normalize_before=False,
        normalize_embedding=True,
        static_position_embeddings=False,
        tie_word_embeddings=True,
    )
    settings.ignore("extra_pos_embeddings")
    settings.ignore("force_bos_token_to_be_generated")  # as transformers 5 does
    settings.ignore("prefix", "replacing_rate", "save_step")  # of pipelines and distillation
    longest = settings.take("max_position_embeddings")
    options = {
        **stack_options(settings, "gelu"),
        "scaled": settings.take("scale_embedding", default=False),
        "max_length": longest,
        "pad_id": settings.take("pad_token_id", default=1),
        "max_source_length": longest,
        "begin_id": settings.take("bos_token_id", default=0),
        "sampler": sampler_of(settings, folder, counts_start=True),
    }
    start = settings.take("decoder_start_token_id", default=2)
    if start != settings.take("eos_token_id", default=2):
        raise ValueError(
            f"{settings.path} begins answers with another token than the end token, which is not "
            "implemented."
        )
    return Plan("bart", options, Names(TABLE, "", TIED), settings.take("vocab_size"))


def tokenizer(folder, size):
    """Returns the tokenizer; outputs begin with the end token."""
    return read_tokenizer(folder, size=size, start="</s>")
