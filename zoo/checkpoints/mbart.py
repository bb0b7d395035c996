"""mBART (Liu et al. 2020) of 25 languages, and mBART-50 (Tang et al. 2020) of 52: translators.

Papers: https://arxiv.org/abs/2001.08210, https://arxiv.org/abs/2008.00401.
"""

from zoo.checkpoints import bart
from zoo.checkpoints.bart_blocks import TIED, stack_options
from zoo.checkpoints.generation import sampler_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.settings import Settings
from zoo.readers.text import MultilingualTokenizer
from zoo.readers.text.languages import OF_MBART
from zoo.readers.text.reading import language_tokens, read_tokenizer
from zoo.storage import CONFIG

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
    names = Names(TABLE, "", TIED)
    return Plan("mbart", options, names, settings.take("vocab_size"), has_languages=True)


def tokenizer(folder, size, source_language, target_language):
    """Returns the tokenizer of two languages.

    Translations of mBART-50 begin with the end token and the language, others with the latter.
    """
    shared, languages = read_tokenizer(folder, size=size, start="</s>"), language_tokens(folder)
    config = Settings.read(folder / CONFIG)
    start = config.take("decoder_start_token_id", default=None)
    is_50 = len(languages) > len(OF_MBART["MBart"])
    if (start == shared.end_id) != is_50:
        raise ValueError(
            f"{config.path} says decoder_start_token_id={start} for {len(languages)} languages, "
            "which is not implemented: translations of mBART-50 begin with the end token, "
            f"{shared.end_id}, and those of mBART with a language."
        )
    return MultilingualTokenizer(
        shared, languages, source_language, target_language, language_last=not is_50
    )
