"""M2M100 (Fan et al. 2020) and NLLB (Costa-jussà et al. 2022): any of many languages into another.

Papers: https://arxiv.org/abs/2010.11125, https://arxiv.org/abs/2207.04672.
"""

from zoo.checkpoints.bart_blocks import TIED, stack_options, table_of_blocks
from zoo.checkpoints.generation import sampler_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.readers.text import MultilingualTokenizer
from zoo.readers.text.reading import language_tokens, read_tokenizer
from zoo.storage.json_files import read_named_json
from zoo.storage.kinds import LARGEST_CONFIG

TABLE = table_of_blocks() | {
    "embedding.table": "model.shared.weight",
    "encoder_norm": "model.encoder.layer_norm",
    "decoder_norm": "model.decoder.layer_norm",
}
UNUSED = (r"model\.(encoder|decoder)\.embed_positions\.weights",)  # sinusoids
CLASSES = ("M2M100ForConditionalGeneration",)
FIRST_POSITION = 2  # as in fairseq, where the rows before it are for padding
LONGEST_SOURCE = 256  # tokens of a sentence that is not cut


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(tie_word_embeddings=True)
    options = {
        **stack_options(settings, "relu"),
        "normalize": "pre",
        "scaled": settings.take("scale_embedding", default=True),
        "layout": "halves",
        "first_position": FIRST_POSITION,
        "pad_id": settings.take("pad_token_id", default=1),
        "max_source_length": LONGEST_SOURCE,
        "sampler": sampler_of(settings, folder, counts_start=True),
    }
    settings.ignore("max_position_embeddings")  # sinusoids know no end
    pairs = options["size"] // 2
    # The largest wavelength is reached, where `SinusoidalPosition` ends one step before it.
    options["max_wavelength"] = 10000.0 ** (pairs / (pairs - 1))
    end = settings.take("eos_token_id", default=2)
    if settings.take("decoder_start_token_id", default=2) != end:
        raise ValueError(
            f"{settings.path} starts translations with a token other than the end token, which is "
            "not implemented."
        )
    names = Names(TABLE, "", TIED, UNUSED)
    return Plan("transformer_nmt", options, names, settings.take("vocab_size"), has_languages=True)


def tokenizer(folder, size, source_language, target_language):
    """Returns the tokenizer of two languages; translations begin with the end token."""
    path = folder / "tokenizer_config.json"
    if path.is_file() and read_named_json(path, LARGEST_CONFIG).get("legacy_behaviour"):
        raise ValueError(
            f"{path} says legacy_behaviour=true, with languages behind texts, which is not "
            "implemented. NLLB learned them in front of texts: set it to false."
        )
    shared = read_tokenizer(folder, size=size, start="</s>")
    return MultilingualTokenizer(shared, language_tokens(folder), source_language, target_language)
