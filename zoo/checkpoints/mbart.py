"""mBART-50 (Tang et al. 2020): any of 52 languages into another.

Paper: https://arxiv.org/abs/2008.00401.
"""

from zoo.checkpoints import bart
from zoo.checkpoints.bart_blocks import TIED, stack_options
from zoo.checkpoints.generation import sampler_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.readers.text import MultilingualTokenizer
from zoo.readers.text.reading import language_tokens, read_tokenizer

TABLE = {
    **bart.TABLE,
    **bart.OF_TEXTS,
    "encoder_norm": "model.encoder.layer_norm",
    "decoder_norm": "model.decoder.layer_norm",
}
CLASSES = ("MBartForConditionalGeneration",)
LONGEST_SOURCE = 256  # tokens of a sentence that is not cut


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(
        add_bias_logits=False,
        add_final_layer_norm=True,
        chunk_size_feed_forward=0,
        is_decoder=False,
        normalize_before=True,
        normalize_embedding=True,
        static_position_embeddings=False,
        tie_word_embeddings=True,
    )
    settings.ignore("extra_pos_embeddings", "force_bos_token_to_be_generated")  # as for BART
    longest = settings.take("max_position_embeddings", default=1024)
    options = {
        **stack_options(settings, "gelu"),
        "scaled": settings.take("scale_embedding", default=False),
        "max_length": longest,
        "pad_id": settings.take("pad_token_id", default=1),
        "max_source_length": min(longest, LONGEST_SOURCE),
        "sampler": sampler_of(settings, folder, counts_start=True),
    }
    start = settings.take("decoder_start_token_id", default=None)
    if start != settings.take("eos_token_id", default=2):
        raise ValueError(
            f"{settings.path} says decoder_start_token_id={start}. Only models that begin "
            "translations with the end token, as mBART-50, are implemented; those of 25 languages, "
            "such as mbart-large-cc25, begin them with the language."
        )
    names = Names(TABLE, "", TIED)
    return Plan("mbart", options, names, settings.take("vocab_size"), has_languages=True)


def tokenizer(folder, size, source_language, target_language):
    """Returns the tokenizer of two languages; translations begin with the end token."""
    shared = read_tokenizer(folder, size=size, start="</s>")
    return MultilingualTokenizer(shared, language_tokens(folder), source_language, target_language)
