"""Tiny random checkpoints, as transformers writes them, to compare with."""

import functools
import io
import json
import tempfile

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers

from tests.readers.text import small_tokenizers

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
STACKS = {
    f"{side}_{name}": number
    for side in ("encoder", "decoder")
    for name, number in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 24))
}
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
    "Bloom": {"tokenizer": "Bloom", "hidden_size": 24, "n_layer": 2, "n_head": 3},
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
    "GPTBigCode": {"tokenizer": "GPT2Tokenizer", **GPT2, "activation_function": "gelu"},
    "GPTNeo": {
        "tokenizer": "GPT2Tokenizer",
        **{name: SIZES[name] for name in ("hidden_size", "max_position_embeddings")},
        "num_layers": 3,
        "num_heads": 2,
        "attention_types": [[["global", "local"], 1], [["local"], 1]],
        "window_size": 4,
    },
    "GPTNeoX": {"tokenizer": "GPTNeoXTokenizer", **SIZES, "rotary_pct": 0.5},
    "Granite": {
        "tokenizer": "GPT2Tokenizer",
        **LLAMA,
        "embedding_multiplier": 3.0,
        "logits_scaling": 4.0,
        "residual_multiplier": 0.3,
        "attention_multiplier": 0.2,
    },
    "Llama": {"tokenizer": "LlamaTokenizer", **LLAMA},
    "Mistral": {"tokenizer": "LlamaTokenizer", **LLAMA, "sliding_window": 5, "head_dim": 6},
    "Olmo2": {"tokenizer": "GPT2Tokenizer", **LLAMA},
    "Olmo3": {
        "tokenizer": "GPT2Tokenizer",
        **LLAMA,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    },
    "OPT": {
        **{name: SIZES[name] for name in SIZES if name != "intermediate_size"},
        "tokenizer": "OPT",
        "ffn_dim": 24,
    },
    "Phi": {"tokenizer": "CodeGenTokenizer", **SIZES, "num_key_value_heads": 1},
    "Phi3": {"tokenizer": "LlamaTokenizer", **LLAMA, "sliding_window": 5},
    "Qwen2": {"tokenizer": "Qwen2Tokenizer", **LLAMA, "tie_word_embeddings": True},
    "Qwen3": {"tokenizer": "Qwen2Tokenizer", **LLAMA, "head_dim": 8},
    "SmolLM3": {"tokenizer": "Qwen2Tokenizer", **LLAMA, "no_rope_layers": [1, 0]},
    "StableLm": {
        "tokenizer": "GPTNeoXTokenizer",
        **LLAMA,
        "use_qkv_bias": True,
        "partial_rotary_factor": 0.5,
    },
    "Starcoder2": {"tokenizer": "GPT2Tokenizer", **LLAMA, "sliding_window": 5},
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
    "Albert": {**SIZES, "tokenizer": "AlbertTokenizer", "embedding_size": 8},
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
    "NomicBert": {"tokenizer": "BertTokenizer", **SIZES},
    "Gte": {**SIZES, "tokenizer": "XLMRobertaTokenizer"},
    "JinaEmbeddingsV3": {**SIZES, "tokenizer": "XLMRobertaTokenizer"},
    "Esm": {
        **SIZES,
        "tokenizer": "EsmTokenizer",
        "max_position_embeddings": 96,
        "position_embedding_type": "rotary",
        "emb_layer_norm_before": False,
        "token_dropout": True,
    },
    "ModernBert": {
        **SIZES,
        "tokenizer": "ModernBertTokenizer",
        "num_hidden_layers": 3,
        "global_attn_every_n_layers": 2,
        "local_attention": 6,
    },
}
WITHOUT_ANSWERS = {"Esm", "Gte", "NomicBert"}


@functools.cache
def tokenizer(name, timestamps=4):
    """Returns a tokenizer, trained on `TEXTS`; Whisper's with a number of timestamps."""
    if name == "MPNetTokenizer":  # the model always takes token 1 for padding
        words = [word for word in tokenizer("BertTokenizer").get_vocab() if word[0] != "["]
        special = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
        vocabulary = {word: number for number, word in enumerate([*special, *sorted(words)])}
        return transformers.MPNetTokenizer(vocabulary)
    if name == "EsmTokenizer":  # it reads a file
        special, letters = ["<cls>", "<pad>", "<eos>", "<unk>"], "LAGVSERTIDPKQNFYMHWC.-taeiodb"
        with tempfile.NamedTemporaryFile("w", suffix="vocab.txt") as file:
            file.write("\n".join([*special, *letters, "<null_1>", "<mask>"]))
            file.flush()
            return transformers.EsmTokenizer(file.name)
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
        # Few merges: they are eager steps, in each text and in each word of the vocabulary.
        trained = transformers.LlamaTokenizer().train_new_from_iterator(TEXTS * 3, 80)
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
    if name == "Bloom":  # not a class of its own
        backend = small_tokenizers.bloom()
        backend.add_special_tokens(["<unk>", "<s>", "</s>", "<pad>"])
        roles = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=backend, **{f"{role}_token": token for role, token in roles.items()}
        )
    if name == "OPT":  # the tokens of fairseq, one of which starts and ends a text
        model = json.loads(tokenizer("GPT2Tokenizer").backend_tokenizer.to_str())["model"]
        words = [word for word in model["vocab"] if word != "<|endoftext|>"]
        words = ["<s>", "<pad>", "</s>", "<unk>", *words]
        roles = {f"{role}_token": "</s>" for role in ("bos", "eos", "unk")}
        return transformers.GPT2Tokenizer(
            {word: number for number, word in enumerate(words)},
            [tuple(merge) for merge in model["merges"]],
            pad_token="<pad>",
            add_bos_token=True,
            **roles,
        )
    trained = getattr(transformers, name)().train_new_from_iterator(TEXTS * 3, 300)
    backend = trained.backend_tokenizer
    model = json.loads(backend.to_str())["model"]
    if model["type"] == "Unigram":  # the order of summation differs from run to run
        special = [piece for piece in model["vocab"] if piece[1] == 0.0]
        pieces = [(word, round(score, 2)) for word, score in model["vocab"][len(special) :]]
        pieces.sort(key=lambda piece: (-piece[1], piece[0]))
        backend.model = tokenizers.models.Unigram([*map(tuple, special), *pieces], model["unk_id"])
    if name == "AlbertTokenizer":  # transformers 5 forgets the segments of its template
        trained.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
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
    if family == "Esm":
        settings["mask_token_id"] = pieces.mask_token_id
    if family in ("ModernBert", "Longformer"):  # whose own are those of its tokenizer
        settings |= {
            f"{role}_token_id": getattr(pieces, f"{role}_token_id") for role in ("cls", "sep")
        }
    config = getattr(transformers, f"{family}Config")(**settings)
    model = random_model(getattr(transformers, f"{family.removesuffix('Text')}{kind}"), config)
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


def random_model(kind, config):
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
