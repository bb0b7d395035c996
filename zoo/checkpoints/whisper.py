"""Whisper (Radford et al. 2022) and models of its structure, such as Distil-Whisper."""

import keras

from zoo.checkpoints.bart_blocks import stack_options, table_of_blocks
from zoo.checkpoints.generation import sampler_of, settings_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.preprocessor import preprocessor_of
from zoo.checkpoints.settings import Settings
from zoo.readers.speech_reader import SpeechReader
from zoo.readers.text.languages import code_of
from zoo.readers.text.reading import read_tokenizer
from zoo.storage import CONFIG

TABLE = table_of_blocks() | {
    "embedding.table": "model.decoder.embed_tokens.weight",
    "embedding.place.embeddings": "model.decoder.embed_positions.weight",
    "encoder_place.embeddings": "model.encoder.embed_positions.weight",
    "convolutions.0": "model.encoder.conv1",
    "convolutions.1": "model.encoder.conv2",
    "encoder_norm": "model.encoder.layer_norm",
    "decoder_norm": "model.decoder.layer_norm",
}
TIED = {"proj_out.weight": "model.decoder.embed_tokens.weight"}
CLASSES = ("WhisperForConditionalGeneration",)
_MASKS = "prob", "length", "min_masks"
START = "<|startoftranscript|>"
RATE = 16000  # where the highest band ends at 8000 hertz
LARGEST_READER = 2**24  # bytes: older files hold the bands
_OF_GENERATION = (  # settings that `_prompt` and `plan` read, and those of timestamps
    "alignment_heads",
    "decoder_start_token_id",
    "forced_decoder_ids",
    "is_multilingual",
    "lang_to_id",
    "language",
    "max_initial_timestamp_index",
    "no_timestamps_token_id",
    "prev_sot_token_id",
    "return_timestamps",
    "task",
    "task_to_id",
)


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(scale_embedding=False, tie_word_embeddings=True)
    settings.ignore("median_filter_width")
    settings.ignore("use_weighted_layer_sum", "classifier_proj_size")  # of classes of sounds
    settings.ignore("apply_spec_augment")  # of training
    settings.ignore("forced_decoder_ids")  # those of the generation settings come first
    settings.ignore(*(f"mask_{axis}_{what}" for axis in ("time", "feature") for what in _MASKS))
    generation = settings_of(settings, folder)
    generation.require(return_timestamps=False)
    stacks = stack_options(settings, "gelu", dropout=0.0)
    options = {
        **stacks,
        "max_length": settings.take("max_target_positions"),
        "bands": settings.take("num_mel_bins"),
        "source_length": settings.take("max_source_positions"),
        "alignment_heads": _numbers(
            generation.take("alignment_heads", default=None), stacks["num_heads"]
        ),
        "reader": _reader(folder),
        "sampler": sampler_of(settings, folder, _OF_GENERATION),
        **_prompt(settings, generation),
    }
    return Plan("whisper", options, Names(TABLE, "", TIED), settings.take("vocab_size"))


def tokenizer(folder, size):
    """Returns the tokenizer, whose texts begin with the token that the config names."""
    found = read_tokenizer(folder, size=size, start=START)
    config = Settings.read(folder / CONFIG)
    start = config.take("decoder_start_token_id")
    if start != found.start_id:
        raise ValueError(
            f"{config.path} begins texts with the token {start}, and that of {START} is "
            f"{found.start_id}, which is not implemented."
        )
    return found


def _prompt(settings, generation):
    """Returns the options of a `Transcriber` for the beginning of its texts."""
    is_multilingual = generation.take("is_multilingual", default=True)
    languages = generation.take("lang_to_id", default=None) if is_multilingual else None
    languages = {code_of(name): token for name, token in (languages or {}).items()}
    tasks = generation.take("task_to_id", default=None) or {}
    task = generation.take("task", default=None)
    language = generation.take("language", default=None)
    forced = _forced_tokens(settings, generation)
    if languages:  # the prompt of the paper, whether or not files name the task
        prompt = ["language", *(["task"] if tasks else [])]
        # In newer files, which name one of the two, the forced tokens do not count.
        if language is None and task is None:
            language, task = _first_of(languages, forced), _first_of(tasks, forced)
    else:
        prompt = [token for token in forced if token is not None]
        tasks, language, task = {}, None, None
    last = generation.take("no_timestamps_token_id", default=None)
    if last is not None and last not in prompt:
        prompt.append(last)
    return {
        "prompt": prompt,
        "languages": languages,
        "tasks": tasks,
        "language": language and code_of(language),
        "task": task,
        "first_timestamp": last and last + 1,
        "latest_start": generation.take("max_initial_timestamp_index", default=None),
    }


def _forced_tokens(settings, generation):
    """Returns the tokens after the start that every text has, `None` where there may be any."""
    forced = generation.take("forced_decoder_ids", default=None)
    if forced is None:
        forced = settings.take("forced_decoder_ids", default=None) or []
    places = [place for place, _ in forced]
    if places != list(range(1, len(places) + 1)):
        raise ValueError(
            f"{generation.path} forces tokens at the places {places}, not from 1 on, which is not "
            "implemented."
        )
    return [token for _, token in forced]


def _first_of(tokens, forced):
    """Returns the name of the first forced token that a dictionary of tokens by name holds."""
    names = {token: name for name, token in tokens.items()}
    return next((names[token] for token in forced if token in names), None)


def _numbers(heads, of_layer):
    """Returns the indices of heads, counted over all layers, for pairs of layer and head."""
    return heads and [layer * of_layer + head for layer, head in heads]


def _reader(folder):
    """Returns the config of the `SpeechReader` that the files of the processor describe."""
    found = Settings(*preprocessor_of(folder, "feature_extractor", LARGEST_READER))
    found.require(sampling_rate=RATE, padding_value=0.0, dither=0.0, padding_side="right")
    rate, hop = RATE, found.take("hop_length", default=160)
    reader = SpeechReader(
        rate,
        found.take("feature_size", default=80),
        found.take("n_fft", default=400) / rate,
        hop / rate,
        float(found.take("chunk_length", default=30)),
    )
    return keras.saving.serialize_keras_object(reader)
