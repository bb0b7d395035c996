"""Tiny checkpoints of models from texts to texts, as those of `tiny`."""

import json

import sentencepiece
import tokenizers
import torch
import transformers

from tests.checkpoints.tiny import (
    GERMAN,
    NLLB,
    STACKS,
    TEXTS,
    random_model,
    sentence_pieces,
    tokenizer,
)


def save_marian(folder):
    """Like `save`, for a Marian translator with separate pieces for each language."""
    pieces = [sentence_pieces(texts) for texts in (TEXTS, GERMAN)]
    names = ["source.spm", "target.spm"]
    vocabulary = {"</s>": 0, "<unk>": 1}
    for name, model in zip(names, pieces, strict=True):
        (folder / name).write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for number in range(3, processor.get_piece_size()):
            vocabulary.setdefault(processor.id_to_piece(number), len(vocabulary))
    vocabulary["<pad>"] = len(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    files = [str(folder / name) for name in (*names, "vocab.json")]
    tokens = transformers.MarianTokenizer(*files, source_lang="en", target_lang="de")
    config = transformers.MarianConfig(
        **STACKS,
        vocab_size=len(vocabulary),
        pad_token_id=vocabulary["<pad>"],
        decoder_start_token_id=vocabulary["<pad>"],
        d_model=16,
        max_position_embeddings=64,
        activation_function="swish",
        scale_embedding=True,
    )
    model = random_model(transformers.MarianMTModel, config)
    model.generation_config.num_beams = 4
    model.generation_config.bad_words_ids = [[vocabulary["<pad>"]]]
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return model, tokens


def save_m2m_100(folder, kind="Nllb"):
    """Like `save`, for an NLLB, or an `"M2M100"`, with English and German among its languages."""
    if kind == "Nllb":
        backend = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
        backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
        special = ["<s>", "<pad>", "</s>", "<unk>"]
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=200, special_tokens=special, show_progress=False
        )
        backend.train_from_iterator((TEXTS + GERMAN) * 3, trainer)
        learned = json.loads(backend.to_str())["model"]
        tokens = transformers.NllbTokenizer(
            learned["vocab"], list(map(tuple, learned["merges"])), **NLLB
        )
        size = len(tokens)
    else:
        pieces = sentence_pieces(TEXTS + GERMAN)
        processor = sentencepiece.SentencePieceProcessor(model_proto=pieces)
        names = ["<s>", "<pad>", "</s>", "<unk>"]
        names += [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
        (folder / "vocab.json").write_text(json.dumps({x: i for i, x in enumerate(names)}))
        (folder / "sentencepiece.bpe.model").write_bytes(pieces)
        files = str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model")
        tokens = transformers.M2M100Tokenizer(*files, src_lang="en", tgt_lang="de")
        size = len(names) + len(tokens.lang_token_to_id)
    config = transformers.M2M100Config(**STACKS, vocab_size=size + 8, d_model=16)
    model = random_model(transformers.M2M100ForConditionalGeneration, config)
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return model, tokens


def look_more(model):
    """Makes what a decoder of BART's kind writes depend more on the source."""
    with torch.no_grad():
        for layer in model.model.decoder.layers:
            for weight in layer.encoder_attn.parameters():
                weight.mul_(4.0)


def save_bart(folder, kind="ForConditionalGeneration", id2label=None, layers=2, **generation):
    """Like `save`, for a BART.

    Args:
        folder: Folder for the checkpoint.
        kind: What the class does.
        id2label: Dictionary of labels, for a classifier.
        layers: Number of layers of each stack.
        **generation: Generation settings.
    """
    pieces = tokenizer("RobertaTokenizer")
    ids = {
        f"{role}_token_id": getattr(pieces, f"{role}_token_id") for role in ("pad", "bos", "eos")
    }
    config = transformers.BartConfig(
        **{**STACKS, "encoder_layers": layers, "decoder_layers": layers},
        **ids,
        vocab_size=len(pieces),
        d_model=16,
        max_position_embeddings=64,
        decoder_start_token_id=pieces.eos_token_id,
        forced_bos_token_id=None,
        forced_eos_token_id=None,
        **({} if id2label is None else {"id2label": id2label}),
    )
    model = random_model(getattr(transformers, f"Bart{kind}"), config)
    for name, value in generation.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    pieces.save_pretrained(folder)
    return model, pieces


def save_pegasus(folder, **generation):
    """Like `save`, for a PEGASUS with `spiece.model`.

    Args:
        folder: Folder for the checkpoint.
        **generation: Generation settings.
    """
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    (folder / "spiece.model").write_bytes(sentence_pieces(TEXTS, **ids))
    pieces = transformers.PegasusTokenizer.from_pretrained(folder)
    config = transformers.PegasusConfig(
        **STACKS,
        vocab_size=len(pieces),
        d_model=16,
        max_position_embeddings=64,
        activation_function="relu",
        scale_embedding=True,
    )
    model = random_model(transformers.PegasusForConditionalGeneration, config)
    model.final_logits_bias[:, 2:105] -= 9.0  # else texts are all special tokens
    look_more(model)
    for name, value in generation.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    return model, pieces


def save_mbart(folder, kind="MBart50"):
    """Like `save`, for an mBART-50, or an `"MBart"`, with `sentencepiece.bpe.model`."""
    path = folder / "sentencepiece.bpe.model"
    path.write_bytes(sentence_pieces(TEXTS + GERMAN))
    pieces = getattr(transformers, f"{kind}Tokenizer").from_pretrained(folder, src_lang="en_XX")
    pieces.tgt_lang = "de_DE"
    config = transformers.MBartConfig(
        **STACKS,
        vocab_size=len(pieces),
        d_model=16,
        max_position_embeddings=64,
        activation_function="relu",
        scale_embedding=True,
        decoder_start_token_id=pieces.eos_token_id if kind == "MBart50" else None,
        tokenizer_class=f"{kind}Tokenizer",
    )
    model = random_model(transformers.MBartForConditionalGeneration, config)
    languages = list(pieces.lang_code_to_id.values())
    model.final_logits_bias[:, languages] -= 9.0  # else texts are all special tokens
    look_more(model)
    model.save_pretrained(folder)
    return model, pieces


def save_t5(folder, untied=False, family="T5", pieces=None, **settings):
    """Like `save`, for a T5, `"MT5"` or `"UMT5"`.

    Args:
        folder: Folder for the checkpoint.
        untied: Whether the output layer has a table of its own.
        family: Model family.
        pieces: The tokenizer; by default that of T5.
        **settings: Settings of the config.
    """
    pieces = pieces or tokenizer("T5Tokenizer")
    sizes = {"d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    biases = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    config = getattr(transformers, f"{family}Config")(
        **{**sizes, **biases, **settings}, vocab_size=len(pieces) + 7, decoder_start_token_id=0
    )
    model = random_model(getattr(transformers, f"{family}ForConditionalGeneration"), config)
    if untied:
        table = 0.3 * torch.randn_like(model.lm_head.weight)
        table[pieces.eos_token_id] *= 0.1  # texts do not end at once
        model.lm_head.weight = torch.nn.Parameter(table)
    model.save_pretrained(folder)
    pieces.save_pretrained(folder)
    return model, pieces
