"""Tokenizers of the `tokenizers` library, trained here, built like those of well-known models."""

import base64
import functools
import io
import json
import pathlib
import tempfile

import sentencepiece
import tokenizers
from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.readers.text.hostile_texts import PROSE, TRICKY
from zoo.readers.text import pretokenizers
from zoo.readers.text.sentencepiece_files import read_model

CORPUS = PROSE * 5 + TRICKY
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def _trained(library, trainer):
    library.train_from_iterator(CORPUS, trainer)
    return library


def bert(lowercase=True):
    library = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    _trained(library, trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special))
    library.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    return library


def _byte_level(pre_tokenizer, normalizer=None, special=("<|endoftext|>",), **options):
    library = tokenizers.Tokenizer(models.BPE(**options))
    if normalizer is not None:
        library.normalizer = normalizer
    library.pre_tokenizer = pre_tokenizer
    library.decoder = decoders.ByteLevel()
    suffix = options.get("end_of_word_suffix", "")
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        initial_alphabet=ALPHABET,
        special_tokens=list(special),
        end_of_word_suffix=suffix,
    )
    return _trained(library, trainer)


def gpt2():
    return _byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))


def roberta():
    special = "<s>", "<pad>", "</s>", "<unk>"
    library = _byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), special=special)
    library.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    library.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return library


def _by_pattern(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def llama3():
    special = "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"
    library = _byte_level(_by_pattern(pretokenizers.LLAMA3), special=special, ignore_merges=True)
    library.post_processor = processors.TemplateProcessing(
        "<|begin_of_text|> $A",
        "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
        [("<|begin_of_text|>", 0)],
    )
    return library


def qwen2():
    return _byte_level(_by_pattern(pretokenizers.QWEN2), normalizers.NFC())


def gpt4o():
    return _byte_level(_by_pattern(pretokenizers.GPT4O))


def mistral_nemo():
    return _byte_level(_by_pattern(pretokenizers.TEKKEN))


def bloom():
    return _byte_level(_by_pattern(pretokenizers.BLOOM))


def gpt_neox():
    library = _byte_level(
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        normalizers.NFC(),
        special=("<|endoftext|>", "<|padding|>"),
    )
    library.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    return library


def smollm():
    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _byte_level(pre_tokenizers.Sequence([digits, byte_level]))


def clip():
    library = _byte_level(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pretokenizers.CLIP), "removed", invert=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        ),
        normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace(Regex(r"\s+"), " "),
                normalizers.Lowercase(),
            ]
        ),
        special=("<|startoftext|>", "<|endoftext|>"),
        unk_token="<|endoftext|>",
        end_of_word_suffix="</w>",
    )
    library.post_processor = processors.RobertaProcessing(
        ("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False
    )
    return library


def llama2(split=False, byte_fallback=True, scheme="first"):
    """Metaspace BPE; trained in words, as SentencePiece does, and run over whole texts."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else []
    special = ["<unk>", "<s>", "</s>"]
    library = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=special + bytes_, limit_alphabet=120
    )
    _trained(library, trainer)
    definition = json.loads(library.to_str())
    definition["model"]["byte_fallback"] = byte_fallback
    definition["pre_tokenizer"]["split"] = split
    definition["added_tokens"] = definition["added_tokens"][:3]
    library = tokenizers.Tokenizer.from_str(json.dumps(definition))
    library.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return library


def old_llama2():
    """The same by normalizers, which is how the first files for Llama 2 were written."""
    definition = json.loads(llama2().to_str())
    definition["pre_tokenizer"] = None
    library = tokenizers.Tokenizer.from_str(json.dumps(definition))
    library.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return library


def gemma():
    """Byte-fallback BPE over whole texts, whose runs of line ends and spaces are added tokens."""
    definition = json.loads(llama2(scheme="never").to_str())
    definition["pre_tokenizer"] = None
    vocabulary = definition["model"]["vocab"]
    vocabulary["\t"] = vocabulary.pop("<0x09>")  # as in Gemma and Gemma 2
    library = tokenizers.Tokenizer.from_str(json.dumps(definition))
    library.normalizer = normalizers.Replace(" ", "▁")
    library.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    runs = [mark * n for n in range(2, 6) for mark in "\n▁"]
    library.add_tokens([AddedToken(run, normalized=False) for run in runs])
    return library


def _unigram(normalizer, pre_tokenizer, special, unknown, size=800):
    library = tokenizers.Tokenizer(models.Unigram())
    library.normalizer = normalizer
    library.pre_tokenizer = pre_tokenizer
    library.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=special, unk_token=unknown, shrinking_factor=0.5
    )
    return _trained(library, trainer)


def albert():
    quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    return _unigram(
        normalizers.Sequence(
            [*quotes, normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        ),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
        "<unk>",
    )


ALL = {
    "bert_uncased": bert,
    "bert_cased": functools.partial(bert, lowercase=False),
    "gpt2": gpt2,
    "roberta": roberta,
    "llama3": llama3,
    "qwen2": qwen2,
    "gpt4o": gpt4o,
    "mistral_nemo": mistral_nemo,
    "bloom": bloom,
    "gpt_neox": gpt_neox,
    "gemma": gemma,
    "smollm": smollm,
    "clip": clip,
    "llama2": llama2,
    "old_llama2": old_llama2,
    "llama2_split": functools.partial(llama2, split=True, scheme="always"),
    "llama2_unk": functools.partial(llama2, byte_fallback=False),
    "albert": albert,
}


@functools.cache
def sentencepiece_model(runs_of_spaces=False, **options):
    """A model of SentencePiece, trained here, as bytes."""
    model = io.BytesIO()
    defaults = {"vocab_size": 600, "hard_vocab_limit": False, "character_coverage": 0.98}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, minloglevel=2, **defaults | options
    )
    return _with_runs_of_spaces(model.getvalue()) if runs_of_spaces else model.getvalue()


def _with_runs_of_spaces(model):
    """As in Llama and Mistral: runs of spaces are pieces, all with the same lowest score."""
    from sentencepiece import sentencepiece_model_pb2  # here, as few tests need it

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    for size in (2, 3, 4, 5, 6, 8):
        proto.pieces.add(piece="▁" * size, score=-1e9)
    for piece in proto.pieces:
        if piece.piece == "▁":
            piece.score = -1e9
    return proto.SerializeToString()


def nmt_nfkc():
    """The normalization of T5, XLM-R and Marian, as the library holds it."""
    path = pathlib.Path(tempfile.mkdtemp()) / "small.model"
    path.write_bytes(sentencepiece_model())
    definition, _ = read_model(path)
    rules = definition["normalizer"]["normalizers"][0]["precompiled_charsmap"]
    return normalizers.Precompiled(base64.b64decode(rules))


def t5():
    library = _unigram(nmt_nfkc(), pre_tokenizers.Metaspace(), ["<pad>", "</s>", "<unk>"], "<unk>")
    library.post_processor = processors.TemplateProcessing(
        "$A </s>", "$A </s> $B </s>", [("</s>", 1)]
    )
    return library


def xlm_roberta():
    return _unigram(
        normalizers.Sequence([nmt_nfkc(), normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        "<unk>",
    )


ALL |= {"t5": t5, "xlm_roberta": xlm_roberta}
