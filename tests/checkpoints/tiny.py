"""Tiny random checkpoints, as transformers writes them, to compare with."""

import functools
import io
import json

import numpy as np
import PIL.Image
import sentencepiece
import tokenizers
import torch
import transformers

TEXTS = [
    "The cats sat on the mat, and the dogs did not mind.",
    "Naïve café owners say: don't!",
    "a",
    "Trains and boats and planes are passing by; they mean a trip to Paris or Rome, for you.",
]
GERMAN = [
    "Die Katzen saßen auf der Matte, und die Hunde störte es nicht.",
    "Züge und Boote und Flugzeuge fahren vorbei.",
    "Eine Reise nach Paris oder Rom, für dich!",
]
NLLB = {"src_lang": "eng_Latn", "tgt_lang": "deu_Latn"}
MARIAN = [("layers", 2), ("attention_heads", 2), ("ffn_dim", 24)]
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 64}
BYTES = {"tokenizer": "RobertaTokenizer", "max_position_embeddings": 66}
GPT2 = {
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 64,
    "activation_function": "gelu_new",
}
LLAMA = {**SIZES, "num_attention_heads": 4, "num_key_value_heads": 2}
GEMMA = {**LLAMA, "tokenizer": "Gemma", "num_hidden_layers": 3, "head_dim": 6}
SCORES_OF_GEMMA = {"query_pre_attn_scalar": 9, "sliding_window": 4}
WRITERS = {
    "Gemma": GEMMA,
    "Gemma2": {
        **GEMMA,
        **SCORES_OF_GEMMA,
        "attn_logit_softcapping": 3.0,
        "final_logit_softcapping": 2.0,
    },
    "Gemma3Text": {
        **GEMMA,
        **SCORES_OF_GEMMA,
        "sliding_window_pattern": 2,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    },
    "GPT2": {"tokenizer": "GPT2Tokenizer", **GPT2},
    "GPTNeo": {
        "tokenizer": "GPT2Tokenizer",
        **{name: SIZES[name] for name in ("hidden_size", "max_position_embeddings")},
        "num_layers": 3,
        "num_heads": 2,
        "attention_types": [[["global", "local"], 1], [["local"], 1]],
        "window_size": 4,
    },
    "GPTNeoX": {"tokenizer": "GPTNeoXTokenizer", **SIZES, "rotary_pct": 0.5},
    "Llama": {"tokenizer": "LlamaTokenizer", **LLAMA},
    "Mistral": {"tokenizer": "LlamaTokenizer", **LLAMA, "sliding_window": 5, "head_dim": 6},
    "Olmo2": {"tokenizer": "GPT2Tokenizer", **LLAMA},
    "Phi3": {"tokenizer": "LlamaTokenizer", **LLAMA, "sliding_window": 5},
    "Qwen2": {"tokenizer": "Qwen2Tokenizer", **LLAMA, "tie_word_embeddings": True},
    "Qwen3": {"tokenizer": "Qwen2Tokenizer", **LLAMA, "head_dim": 8},
}
OF_BLOCKS = {name: SIZES[name] for name in SIZES if name != "max_position_embeddings"}
VIT = {**OF_BLOCKS, "image_size": 16, "patch_size": 4, "layer_norm_eps": 1e-6}
SPECIAL = "startoftranscript", "en", "de", "fr", "translate", "transcribe", "notimestamps"
FAMILIES = {  # the class of a tokenizer, and settings
    "Bert": {"tokenizer": "BertTokenizer", **SIZES},
    "Roberta": {**SIZES, **BYTES, "type_vocab_size": 1},
    "XLMRoberta": {**SIZES, **BYTES, "tokenizer": "XLMRobertaTokenizer", "type_vocab_size": 1},
    "Camembert": {**SIZES, **BYTES, "type_vocab_size": 1},
    "Longformer": {**SIZES, **BYTES, "type_vocab_size": 1, "attention_window": 4},
    "DistilBert": {"tokenizer": "BertTokenizer", **DISTIL},
    "Electra": {"tokenizer": "BertTokenizer", **SIZES, "embedding_size": 8},
    "DebertaV2": {
        **SIZES,
        "tokenizer": "DebertaV2Tokenizer",
        "type_vocab_size": 2,
        "relative_attention": True,
        "position_biased_input": False,
        "position_buckets": 4,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
    },
    "MPNet": {"tokenizer": "MPNetTokenizer", **SIZES, "max_position_embeddings": 66},
    "ModernBert": {
        **SIZES,
        "tokenizer": "ModernBertTokenizer",
        "num_hidden_layers": 3,
        "global_attn_every_n_layers": 2,
        "local_attention": 6,
    },
}


def photos():
    """Returns three smooth pictures of different sizes."""
    rng = np.random.default_rng(0)
    sizes = [(48, 36), (20, 33), (16, 16)]
    coarse = [PIL.Image.fromarray(rng.integers(0, 256, (3, 4, 3), dtype="uint8")) for _ in sizes]
    return [
        each.resize(size, PIL.Image.Resampling.BICUBIC)
        for each, size in zip(coarse, sizes, strict=True)
    ]


@functools.cache
def tokenizer(name, timestamps=4):
    """Returns a tokenizer, trained on `TEXTS`; Whisper's with a number of timestamps."""
    if name == "MPNetTokenizer":  # the model always takes token 1 for padding
        words = [word for word in tokenizer("BertTokenizer").get_vocab() if word[0] != "["]
        special = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
        vocabulary = {word: number for number, word in enumerate([*special, *sorted(words)])}
        return transformers.MPNetTokenizer(vocabulary)
    if name == "ModernBertTokenizer":  # not a class of its own
        roles = {f"{role}_token": f"[{role.upper()}]" for role in ("cls", "sep", "pad", "mask")}
        special = [*roles.values(), "[UNK]"]
        backend = tokenizers.Tokenizer(tokenizers.models.BPE())
        backend.normalizer = tokenizers.normalizers.NFC()
        backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = tokenizers.decoders.ByteLevel()
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
        backend.train_from_iterator(TEXTS * 3, trainer)
        backend.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(token, backend.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
        )
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=backend,
            unk_token="[UNK]",
            model_input_names=["input_ids", "attention_mask"],
            **roles,
        )
    if name == "CLIPTokenizer":  # its special tokens come last, as in CLIP's own
        trained = transformers.CLIPTokenizer().train_new_from_iterator(TEXTS * 3, 300)
        model = json.loads(trained.backend_tokenizer.to_str())["model"]
        special = ["<|startoftext|>", "<|endoftext|>"]
        words = [word for word in model["vocab"] if word not in special]
        vocabulary = {word: number for number, word in enumerate([*words, *special])}
        merges = [tuple(merge) for merge in model["merges"]]
        return transformers.CLIPTokenizer(vocabulary, merges)
    if name == "WhisperTokenizer":  # its special tokens and timestamps come last
        trained = transformers.WhisperTokenizer().train_new_from_iterator(TEXTS * 3, 300)
        special = [f"<|{each}|>" for each in SPECIAL]
        trained.add_tokens([transformers.AddedToken(each, special=True) for each in special])
        trained.add_tokens([f"<|{0.02 * place:.2f}|>" for place in range(timestamps)])
        return trained
    if name in (
        "LlamaTokenizer",
        "Gemma",
        "GemmaTokenizer",
        "Siglip2Tokenizer",
    ):  # need a piece for each byte
        trained = transformers.LlamaTokenizer().train_new_from_iterator(TEXTS * 3, 300)
        model = json.loads(trained.backend_tokenizer.to_str())["model"]
        is_llama = name == "LlamaTokenizer"
        special = ["<unk>", "<s>", "</s>"] if is_llama else ["<pad>", "<eos>", "<bos>", "<unk>"]
        special += [f"<0x{byte:02X}>" for byte in range(256)]
        words = [word for word in model["vocab"] if word not in ("<s>", "</s>", *special)]
        vocabulary = {word: number for number, word in enumerate([*special, *words])}
        merges = [tuple(merge) for merge in model["merges"]]
        flags = {"add_bos_token": False, "add_eos_token": True, "padding_side": "right"}
        flags["model_input_names"] = ["input_ids"]  # all as in the files of SigLIP 2
        if name == "Gemma":  # as in the files of its language models
            return transformers.GemmaTokenizer(vocabulary, merges, add_bos_token=True)
        return getattr(transformers, name)(vocabulary, merges, **({} if is_llama else flags))
    trained = getattr(transformers, name)().train_new_from_iterator(TEXTS * 3, 300)
    backend = trained.backend_tokenizer
    model = json.loads(backend.to_str())["model"]
    if model["type"] == "Unigram":  # the order of summation differs from run to run
        special = [piece for piece in model["vocab"] if piece[1] == 0.0]
        pieces = [(word, round(score, 2)) for word, score in model["vocab"][len(special) :]]
        pieces.sort(key=lambda piece: (-piece[1], piece[0]))
        backend.model = tokenizers.models.Unigram([*map(tuple, special), *pieces], model["unk_id"])
    return trained


def save(folder, family, kind, **settings):
    """Writes a checkpoint with random weights, biases included.

    Args:
        folder: Folder for the checkpoint.
        family: Model family, such as `"Bert"`.
        kind: What the class does, such as `"ForMaskedLM"`.
        **settings: Settings of the config.

    Returns:
        The model and the tokenizer of transformers.
    """
    settings = {**(FAMILIES | WRITERS)[family], **settings}
    pieces = tokenizer(settings.pop("tokenizer"))
    settings["vocab_size"] = len(pieces)
    for role in ("pad", "bos", "eos"):
        settings[f"{role}_token_id"] = getattr(pieces, f"{role}_token_id")
    if family in ("ModernBert", "Longformer"):  # whose own are those of its tokenizer
        settings |= {
            f"{role}_token_id": getattr(pieces, f"{role}_token_id") for role in ("cls", "sep")
        }
    config = getattr(transformers, f"{family}Config")(**settings)
    model = _random(getattr(transformers, f"{family.removesuffix('Text')}{kind}"), config)
    model.save_pretrained(folder)
    pieces.save_pretrained(folder)
    return model, pieces


@torch.no_grad()
def outputs(model, pieces, texts=TEXTS):
    """Returns what a transformers model computes for a padded batch, and its inputs."""
    inputs = pieces(texts, padding=True, return_tensors="pt")
    return with_square_attentions(model, model(**inputs, output_attentions=True)), inputs


def with_square_attentions(model, outputs, is_global=None):
    """Returns the outputs of a model with `(batch, heads, length, length)` attentions.

    Those of a Longformer hold the global tokens, and then the window of each token.

    Args:
        model: The model.
        outputs: Its outputs.
        is_global: Booleans `(batch, length)`; by default the first token is global, if one is.
    """
    windows = getattr(model.config, "attention_window", None)
    if windows is None:
        return outputs
    batch, heads, length, _ = outputs.attentions[0].shape
    if is_global is None:
        has_global = outputs.global_attentions is not None
        is_global = np.tile(has_global & (np.arange(length) < 1), (batch, 1))
    found = []
    for layer, window in enumerate(windows):
        local = outputs.attentions[layer].numpy()
        number = local.shape[-1] - window - 1
        square = np.zeros((batch, heads, length, length + 2 * window), "float32")
        for place in range(length):
            first = place + window // 2
            square[:, :, place, first : first + window + 1] = local[:, :, place, number:]
        square = square[..., window : length + window]
        for row in range(batch):
            for rank, place in enumerate(np.flatnonzero(is_global[row])):
                square[row, :, :, place] += local[row, :, :, rank]
                of_token = outputs.global_attentions[layer][row, :, :length, rank]
                square[row, :, place] = of_token.numpy()
        found.append(torch.tensor(square))
    outputs.attentions = tuple(found)
    return outputs


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
    stacks = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in MARIAN}
    config = transformers.MarianConfig(
        **stacks,
        vocab_size=len(vocabulary),
        pad_token_id=vocabulary["<pad>"],
        decoder_start_token_id=vocabulary["<pad>"],
        d_model=16,
        max_position_embeddings=64,
        activation_function="swish",
        scale_embedding=True,
    )
    model = _random(transformers.MarianMTModel, config)
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
    stacks = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in MARIAN}
    config = transformers.M2M100Config(**stacks, vocab_size=size + 8, d_model=16)
    model = _random(transformers.M2M100ForConditionalGeneration, config)
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return model, tokens


def sentence_pieces(texts, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 5),
        model_writer=model,
        vocab_size=80,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def _random(kind, config):
    """Returns a model with random weights, biases included."""
    torch.manual_seed(1)
    model = kind._from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:  # sinusoids do not
                weight.add_(0.3 * torch.randn_like(weight))
        if hasattr(model, "final_logits_bias"):  # a buffer
            model.final_logits_bias.add_(torch.randn_like(model.final_logits_bias))
    return model.eval()


def _look_more(model):
    """Makes what a decoder of BART's kind writes depend more on the source."""
    with torch.no_grad():
        for layer in model.model.decoder.layers:
            for weight in layer.encoder_attn.parameters():
                weight.mul_(4.0)


def save_clip(folder, length):
    """Like `save`, for a CLIP with texts of up to `length` tokens; also its image processor."""
    pieces = tokenizer("CLIPTokenizer")
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    texts = {"hidden_size": 16, "vocab_size": len(pieces), "max_position_embeddings": length}
    ends = {"bos_token_id": pieces.bos_token_id, "eos_token_id": pieces.eos_token_id}
    pictures = {"hidden_size": 20, "image_size": 16, "patch_size": 4}
    config = transformers.CLIPConfig(
        text_config={**sizes, **texts, **ends, "pad_token_id": pieces.pad_token_id},
        vision_config={**sizes, **pictures},
        projection_dim=12,
    )
    model = _random(transformers.CLIPModel, config)
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}
    )
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor


def save_siglip(folder, length, image_size=16, name="SiglipTokenizer"):
    """Like `save`, for a SigLIP with texts of `length` tokens; also its image processor.

    As in the files of Google, the tokenizer returns no masks, since the model uses none.
    """
    if name != "SiglipTokenizer":
        pieces = tokenizer(name)
    else:
        ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
        (folder / "spiece.model").write_bytes(sentence_pieces(TEXTS, **ids))
        flags = {"model_max_length": length, "model_input_names": ["input_ids"]}
        pieces = transformers.SiglipTokenizer(str(folder / "spiece.model"), **flags)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    texts = {"hidden_size": 16, "vocab_size": len(pieces), "max_position_embeddings": length}
    pictures = {"hidden_size": 20, "image_size": image_size, "patch_size": 5}
    config = transformers.SiglipConfig(
        text_config={**sizes, **texts, "projection_size": 20},
        vision_config={**sizes, **pictures},
    )
    model = _random(transformers.SiglipModel, config)
    with torch.no_grad():
        model.logit_scale.fill_(3.0)
        model.logit_bias.fill_(-1.5)
    square = {"height": image_size, "width": image_size}
    processor = transformers.SiglipImageProcessor(size=square)
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor


def save_blip(folder, kind="ForConditionalGeneration", **texts):
    """Like `save`, for a BLIP; also its image processor.

    As in the files of Salesforce, the tokenizer does not know the token that begins a caption.

    Args:
        folder: Folder for the checkpoint.
        kind: What the class does.
        **texts: Further settings of the decoder.
    """
    pieces = tokenizer("BertTokenizer")
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    ids = {"bos_token_id": len(pieces), "sep_token_id": pieces.sep_token_id, "pad_token_id": 0}
    config = transformers.BlipConfig(
        text_config={
            **sizes,
            **ids,
            "hidden_size": 16,
            "vocab_size": len(pieces) + 2,
            "max_position_embeddings": 40,
            **texts,
        },
        vision_config={**sizes, "hidden_size": 20, "image_size": 16, "patch_size": 4},
    )
    model = _random(getattr(transformers, f"Blip{kind}"), config)
    if kind == "ForConditionalGeneration":
        with torch.no_grad():  # else all captions repeat one token without end
            decoder = model.text_decoder
            model.vision_model.embeddings.patch_embedding.weight.mul_(3.0)
            decoder.bert.embeddings.position_embeddings.weight.mul_(2.0)
            for layer in decoder.bert.encoder.layer:
                layer.crossattention.output.dense.weight.mul_(8.0)
            # Padding and start tokens are never generated here.
            decoder.cls.predictions.bias[[0, len(pieces), len(pieces) + 1]] = -9.0
            decoder.cls.predictions.bias[pieces.sep_token_id] += 2.0
    processor = transformers.BlipImageProcessorPil(size={"height": 16, "width": 16})
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor


def save_bart(folder, kind="ForConditionalGeneration", id2label=None, **generation):
    """Like `save`, for a BART.

    Args:
        folder: Folder for the checkpoint.
        kind: What the class does.
        id2label: Dictionary of labels, for a classifier.
        **generation: Generation settings.
    """
    pieces = tokenizer("RobertaTokenizer")
    stacks = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in MARIAN}
    ids = {
        f"{role}_token_id": getattr(pieces, f"{role}_token_id") for role in ("pad", "bos", "eos")
    }
    config = transformers.BartConfig(
        **stacks,
        **ids,
        vocab_size=len(pieces),
        d_model=16,
        max_position_embeddings=64,
        decoder_start_token_id=pieces.eos_token_id,
        forced_bos_token_id=None,
        forced_eos_token_id=None,
        **({} if id2label is None else {"id2label": id2label}),
    )
    model = _random(getattr(transformers, f"Bart{kind}"), config)
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
    stacks = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in MARIAN}
    config = transformers.PegasusConfig(
        **stacks,
        vocab_size=len(pieces),
        d_model=16,
        max_position_embeddings=64,
        activation_function="relu",
        scale_embedding=True,
    )
    model = _random(transformers.PegasusForConditionalGeneration, config)
    model.final_logits_bias[:, 2:105] -= 9.0  # else texts are all special tokens
    _look_more(model)
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
    stacks = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in MARIAN}
    config = transformers.MBartConfig(
        **stacks,
        vocab_size=len(pieces),
        d_model=16,
        max_position_embeddings=64,
        activation_function="relu",
        scale_embedding=True,
        decoder_start_token_id=pieces.eos_token_id if kind == "MBart50" else None,
        tokenizer_class=f"{kind}Tokenizer",
    )
    model = _random(transformers.MBartForConditionalGeneration, config)
    languages = list(pieces.lang_code_to_id.values())
    model.final_logits_bias[:, languages] -= 9.0  # else texts are all special tokens
    _look_more(model)
    model.save_pretrained(folder)
    return model, pieces


def save_t5(folder, untied=False, family="T5", **settings):
    """Like `save`, for a T5, `"MT5"` or `"UMT5"`.

    Args:
        folder: Folder for the checkpoint.
        untied: Whether the output layer has a table of its own.
        family: Model family.
        **settings: Settings of the config.
    """
    pieces = tokenizer("T5Tokenizer")
    sizes = {"d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    biases = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    config = getattr(transformers, f"{family}Config")(
        **{**sizes, **biases, **settings}, vocab_size=len(pieces) + 7, decoder_start_token_id=0
    )
    model = _random(getattr(transformers, f"{family}ForConditionalGeneration"), config)
    if untied:
        table = 0.3 * torch.randn_like(model.lm_head.weight)
        model.lm_head.weight = torch.nn.Parameter(table)
    model.save_pretrained(folder)
    pieces.save_pretrained(folder)
    return model, pieces


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
    model = _random(transformers.ASTForAudioClassification, config)
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
    model = _random(getattr(transformers, f"{family}{kind}"), config)
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
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in MARIAN}
    ends = dict.fromkeys(("eos_token_id", "pad_token_id"), pieces.eos_token_id)
    config = transformers.WhisperConfig(
        **sizes,
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
    model = _random(transformers.WhisperForConditionalGeneration, config)
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


def save_vision_encoder_decoder(
    folder, kind="TrOCR", encoder="ViT", pieces=None, ending=3.0, **decoder
):
    """Like `save`, for a vision encoder and a decoder of texts; also its image processor.

    Args:
        folder: Folder for the checkpoint.
        kind: `"TrOCR"` or `"GPT2"`, the decoder.
        encoder: `"ViT"` or `"DeiT"`.
        pieces: The name of a tokenizer; that of RoBERTa or GPT-2 by default.
        ending: How likely texts are to end.
        **decoder: Further settings of the decoder.
    """
    is_trocr = kind == "TrOCR"
    pieces = tokenizer(pieces or ("RobertaTokenizer" if is_trocr else "GPT2Tokenizer"))
    sizes = {
        "d_model": 16,
        "decoder_layers": 2,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 40,
        "cross_attention_hidden_size": 20,
    }
    ids = {f"{role}_token_id": getattr(pieces, f"{role}_token_id") for role in ("bos", "eos")}
    ids["pad_token_id"] = pieces.pad_token_id if is_trocr else pieces.eos_token_id
    ids["decoder_start_token_id"] = pieces.eos_token_id
    words = getattr(transformers, f"{kind}Config")(
        **{**(sizes if is_trocr else GPT2), **ids, "vocab_size": len(pieces), **decoder}
    )
    eyes = {**VIT, "hidden_size": 20, "qkv_bias": encoder == "DeiT"}
    eyes = getattr(transformers, f"{encoder}Config")(**eyes)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        eyes, words, **ids
    )
    model = _random(transformers.VisionEncoderDecoderModel, config)
    with torch.no_grad():  # else all texts repeat one token without end
        model.encoder.embeddings.patch_embeddings.projection.weight.mul_(3.0)
        stack = model.decoder.model.decoder if is_trocr else model.decoder.transformer
        for layer in stack.layers if is_trocr else stack.h:
            cross = layer.encoder_attn.out_proj if is_trocr else layer.crossattention.c_proj
            cross.weight.mul_(8.0)
        table = model.decoder.get_output_embeddings().weight
        bias = (stack.layers[-1].final_layer_norm if is_trocr else stack.ln_f).bias
        bias += ending * table[ids["eos_token_id"]]
        if is_trocr:  # which never generates padding here
            bias -= table[ids["pad_token_id"]]
    model.generation_config.no_repeat_ngram_size = 2
    processor = transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor
