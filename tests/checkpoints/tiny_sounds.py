"""Tiny checkpoints of models of sounds, as those of `tiny`."""

import json

import torch
import transformers

from tests.checkpoints.tiny import OF_BLOCKS, SPECIAL, STACKS, random_model, tokenizer


def save_spectrogram_transformer(folder, **settings):
    """Like `save`, for an Audio Spectrogram Transformer of a second; also its feature extractor."""
    sizes = {"num_mel_bins": 24, "max_length": 100}
    config = transformers.ASTConfig(
        **OF_BLOCKS,
        **sizes,
        patch_size=8,
        frequency_stride=5,
        time_stride=6,
        num_labels=3,
        **settings,
    )
    model = random_model(transformers.ASTForAudioClassification, config)
    extractor = transformers.ASTFeatureExtractor(**sizes, mean=-5.0, std=3.0)
    model.save_pretrained(folder)
    extractor.save_pretrained(folder)
    return model, extractor


def save_wav2vec2(folder, kind="ForCTC", family="Wav2Vec2", blank="<pad>", **settings):
    """Like `save`, for a wav2vec 2.0 or HuBERT; also its feature extractor.

    Args:
        folder: Folder for the checkpoint.
        kind: What the class does.
        family: `"Wav2Vec2"` or `"Hubert"`.
        blank: The blank; if it is not `"<pad>"`, it is the last token.
        **settings: Settings of the config, and those of the feature extractor and the tokenizer.
    """
    usual = ["<pad>", "<s>", "</s>", "<unk>"] if blank == "<pad>" else ["<unk>"]
    tokens = [*usual, *"|ETAOIN'.,S", *([] if blank == "<pad>" else [blank])]
    (folder / "vocab.json").write_text(json.dumps({x: i for i, x in enumerate(tokens)}))
    names = "do_lower_case", "clean_up_tokenization_spaces"
    options = {name: settings.pop(name) for name in names if name in settings}
    pieces = transformers.Wav2Vec2CTCTokenizer(
        str(folder / "vocab.json"), pad_token=blank, **options
    )
    names = "return_attention_mask", "do_normalize"
    options = {name: settings.pop(name) for name in names if name in settings}
    extractor = transformers.Wav2Vec2FeatureExtractor(**options)
    front = {"conv_dim": [8, 8, 8], "conv_kernel": [10, 3, 2], "conv_stride": [5, 2, 2]}
    places = {"num_conv_pos_embeddings": 6, "num_conv_pos_embedding_groups": 4}
    config = getattr(transformers, f"{family}Config")(
        **{**OF_BLOCKS, **front, **places, "classifier_proj_size": 12, **settings},
        vocab_size=len(tokens),
        pad_token_id=tokens.index(blank),
    )
    model = random_model(getattr(transformers, f"{family}{kind}"), config)
    if kind == "ForCTC":
        with torch.no_grad():  # else all texts repeat one token
            getattr(model, family.lower()).feature_projection.projection.weight.mul_(4.0)
            for name, weight in model.named_parameters():
                is_block = ".layers." in name and weight.ndim == 2
                weight.mul_(0.1 if name.endswith("bias") else 0.5 if is_block else 1.0)
    for part in (model, extractor, *([pieces] if kind == "ForCTC" else [])):
        part.save_pretrained(folder)
    return model, pieces, extractor


def save_whisper(folder, is_multilingual=True, timestamps=4, **generation):
    """Like `save`, for a Whisper of two seconds with 8 bands; also its feature extractor.

    Args:
        folder: Folder for the checkpoint.
        is_multilingual: Whether it knows languages and tasks.
        timestamps: Number of timestamps; 101 for all of two seconds.
        **generation: Generation settings.
    """
    pieces = tokenizer("WhisperTokenizer", timestamps)
    ids = {name: pieces.convert_tokens_to_ids(f"<|{name}|>") for name in SPECIAL}
    ends = dict.fromkeys(("eos_token_id", "pad_token_id"), pieces.eos_token_id)
    config = transformers.WhisperConfig(
        **STACKS,
        **ends,
        vocab_size=len(pieces) + 5,
        bos_token_id=pieces.bos_token_id,
        decoder_start_token_id=ids["startoftranscript"],
        d_model=16,
        num_mel_bins=8,
        max_source_positions=100,
        max_target_positions=40,
        begin_suppress_tokens=None,
    )
    model = random_model(transformers.WhisperForConditionalGeneration, config)
    with torch.no_grad():  # else all texts repeat one token without end
        for name, weight in model.model.decoder.named_parameters():
            scales = {"bias": 0.1, "embed_tokens": 0.2, "embed_positions": 8.0, "encoder_attn": 2.0}
            weight.mul_(next((scale for part, scale in scales.items() if part in name), 1.0))
        table = model.model.decoder.embed_tokens.weight
        table[list(ids.values())] *= 5.0  # these are never written
        table[pieces.eos_token_id] = 4.0 * table[pieces.convert_tokens_to_ids("a")]
    settings = {
        "alignment_heads": [[0, 1], [1, 0]],
        "begin_suppress_tokens": [5, pieces.eos_token_id],
        "forced_decoder_ids": None,
        "is_multilingual": is_multilingual,
        "max_length": 40,
        "no_timestamps_token_id": ids["notimestamps"],
        "return_timestamps": False,
        # No timestamps: transformers would make segments of them.
        "suppress_tokens": [7, 9, *range(ids["startoftranscript"], config.vocab_size)],
        **ends,
    }
    if is_multilingual:
        settings["lang_to_id"] = {f"<|{code}|>": ids[code] for code in ("en", "de", "fr")}
        settings["task_to_id"] = {task: ids[task] for task in ("transcribe", "translate")}
    for name, value in {**settings, **generation}.items():
        setattr(model.generation_config, name, value)
    processor = transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=2)
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor
