"""Marian (Junczys-Dowmunt et al. 2018): the translation models of OPUS-MT."""

from zoo.checkpoints.bart_blocks import TIED, stack_options, table_of_blocks
from zoo.checkpoints.generation import sampler_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.readers.text import TwoSidedTokenizer
from zoo.readers.text.reading import read_tokenizer

TABLE = table_of_blocks() | {
    "embedding.table": "model.shared.weight",
    "embedding.bias": "final_logits_bias",
}
UNUSED = (r"model\.(encoder|decoder)\.embed_positions\.weight",)  # sinusoids
CLASSES = ("MarianMTModel",)
LONGEST_SOURCE = 256  # tokens of a sentence that is not cut


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(
        add_bias_logits=False,
        add_final_layer_norm=False,
        chunk_size_feed_forward=0,
        do_blenderbot_90_layernorm=False,
        force_bos_token_to_be_generated=False,
        is_decoder=False,
        normalize_before=False,
        normalize_embedding=False,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        static_position_embeddings=True,
        tie_word_embeddings=True,
    )
    settings.ignore("extra_pos_embeddings")  # without an effect; often the size of the vocabulary
    longest = settings.take("max_position_embeddings")
    size = settings.take("vocab_size")
    if settings.take("decoder_vocab_size", default=size) != size:
        raise ValueError(f"{settings.path} has two vocabularies, which is not implemented.")
    options = {
        **stack_options(settings, "swish"),
        "layout": "halves",
        "output_bias": True,
        "max_length": longest,
        "pad_id": settings.take("pad_token_id"),
        "max_source_length": min(longest, LONGEST_SOURCE),
        "sampler": sampler_of(settings, folder, counts_start=True),
    }
    if settings.take("decoder_start_token_id") != options["pad_id"]:
        raise ValueError(
            f"{settings.path} starts translations with a token other than the padding token, which "
            "is not implemented."
        )
    return Plan("transformer_nmt", options, Names(TABLE, "", TIED, UNUSED), size)


def tokenizer(folder, size):
    """Returns the tokenizer of both languages; translations begin with the padding token."""
    sides = (read_tokenizer(folder, side, size, start="<pad>") for side in ("target", "source"))
    return TwoSidedTokenizer(*sides)
