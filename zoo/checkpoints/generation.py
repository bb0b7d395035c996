"""The generation settings of a checkpoint: its default sampler."""

import keras

from zoo import decoding
from zoo.checkpoints.settings import Settings
from zoo.storage.json_files import read_named_json
from zoo.storage.kinds import LARGEST_CONFIG

FILE = "generation_config.json"
_NEUTRAL = {  # values without an effect, at least here
    "cache_implementation",
    "max_length",
    "max_new_tokens",
    "output_scores",
    "remove_invalid_values",
    "return_dict_in_generate",
    "trust_remote_code",
}
_OLD = (  # settings that older files keep in the config of the model
    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "repetition_penalty",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
)
_TOP_K = 50  # transformers' default when it samples


def settings_of(settings, folder):
    """Returns the generation `Settings`, which older files keep in the config of the model."""
    path = folder / FILE
    if not path.is_file():
        return settings
    settings.ignore(*_OLD)
    return Settings(path, read_named_json(path, LARGEST_CONFIG))


def sampler_of(settings, folder, ignored=(), counts_start=False):
    """Returns the config of the default sampler of a checkpoint.

    Args:
        settings: `Settings` of the model, which in older files include those of generation.
        folder: The folder.
        ignored: Names of further generation settings, which the family reads itself.
        counts_start: Whether the start token, and nothing else, comes before the tokens of a text,
            so that `min_length` is a number of them and the start token.

    Raises:
        ValueError: If a setting is not implemented; the message names it.
    """
    found = settings_of(settings, folder)
    found.ignore(*ignored)
    bad_words = found.take("bad_words_ids", default=None) or []
    suppressed = found.take("suppress_tokens", default=None) or []
    options = {
        "repetition_penalty": found.take("repetition_penalty", default=None),
        "no_repeat_ngram_size": found.take("no_repeat_ngram_size", default=None),
        "min_length": _min_length(found, counts_start),
        "bad_words": [*bad_words, *([token] for token in suppressed)],
        "bad_first_tokens": found.take("begin_suppress_tokens", default=None),
        "forced_first_token": found.take("forced_bos_token_id", default=None),
    }
    neutral = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_length": 0}
    options = {
        name: value
        for name, value in options.items()
        if value not in (None, []) and value != neutral.get(name)
    }
    if found.take("renormalize_logits", default=False):
        options["processors"] = [decoding.Renormalized()]
    end_ids = found.take("eos_token_id", default=None)
    if isinstance(end_ids, list):
        options["end_ids"] = end_ids
    name, more = _kind(found)
    found.ignore(*_NEUTRAL)
    found.require(diversity_penalty=0.0, num_beam_groups=1, typical_p=1.0)
    found.require(encoder_no_repeat_ngram_size=0, num_return_sequences=1)
    if found is not settings:
        found.require_all_seen()
    return keras.saving.serialize_keras_object(decoding.get(name, **more, **options))


def sampler_of_continuations(settings, folder):
    """Returns the same for a model that continues texts.

    There, `forced_bos_token_id` only holds for prompts of a single token.
    """
    settings_of(settings, folder).require(forced_bos_token_id=None)
    return sampler_of(settings, folder)


def ignore_generation(settings):
    """Marks the generation settings as seen, in the config of a model that generates nothing."""
    settings.ignore("prefix", "renormalize_logits", *_OLD, *_NEUTRAL)


def _min_length(settings, counts_start):
    """Returns the minimum number of tokens of a text."""
    length = settings.take("min_new_tokens", default=None)
    if not counts_start:
        settings.require(min_length=0)
        return length
    with_start = settings.take("min_length", default=0)
    return max(length or 0, with_start - 1)


def _kind(settings):
    """Returns the name of a sampler, and its own options."""
    beams = settings.take("num_beams", default=None) or 1
    penalty = settings.take("length_penalty", default=None)
    stops = settings.take("early_stopping", default=False)
    temperature = settings.take("temperature", default=None)
    k, p = settings.take("top_k", default=None), settings.take("top_p", default=None)
    if settings.take("do_sample", default=False):
        if beams > 1:
            raise ValueError(
                f"{settings.path} combines sampling with beam search, which is not implemented."
            )
        warmth = {"temperature": 1.0 if temperature is None else temperature}
        k = _TOP_K if k is None else k
        if p is not None and p < 1:
            return "top_p", {**warmth, "p": p, "k": k or None}
        return ("top_k", {**warmth, "k": k}) if k else ("random", warmth)
    if beams == 1:
        return "greedy", {}
    options = {"num_beams": beams, "exact": stops is not False, "only_best_end": True}
    if stops is True:
        options["patience"] = 1.0
    return "beam", options | ({} if penalty is None else {"length_penalty": penalty})
