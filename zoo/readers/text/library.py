"""Uses of the Hugging Face `tokenizers` library, which is imported only when needed."""

import collections
import json

import tensorflow as tf

from zoo.readers.text import models
from zoo.readers.text.words import WORD_PATTERN, split_words

CLEANED = "clean_up_tokenization_spaces"  # an option of transformers
PARTS = "normalizer", "pre_tokenizer", "post_processor", "decoder"
USUAL = {  # defaults of required options, which affect only offsets
    "ByteLevel": {"add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "RobertaProcessing": {"add_prefix_space": False, "trim_offsets": True},
}


def learn_merges(sentences, vocabulary_size, prefix_space):
    """Returns the merges of a vocabulary of bytes, `(left, right)`, by decreasing priority."""
    tokenizers = _import_tokenizers()
    library = _tokenizer_around(tokenizers.models.BPE(), prefix_space)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(sentences, trainer)
    return json.loads(library.to_str())["model"]["merges"]


def encoder(vocabulary, merges, prefix_space):
    """Returns a `tokenizers.Tokenizer` that splits texts as `ByteBPETokenizer` does."""
    tokenizers = _import_tokenizers()
    library = _tokenizer_around(tokenizers.models.BPE(vocabulary, merges), prefix_space)
    library.decoder = tokenizers.decoders.ByteLevel()
    return library


def of_definition(definition):
    """Returns the `tokenizers.Tokenizer` of the content of a `tokenizer.json`.

    Args:
        definition: Dictionary; options that it lacks and the library requires have the defaults.

    Raises:
        ImportError: If `tokenizers` is not installed.
        ValueError: If the library cannot read the definition, such as that of a SentencePiece
            file.
    """
    tokenizers = _import_tokenizers()
    kind = models.kind_of(definition["model"])
    if kind.startswith("SentencePiece"):
        raise ValueError(
            f"The `tokenizers` library has no {kind}, which was read from a SentencePiece file. "
            "Elsewhere, tokenize with the `sentencepiece` library and that file, or load a "
            "checkpoint with a tokenizer.json."
        )
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    added = [{**flags, **token} for token in definition.get("added_tokens") or []]
    parts = {name: _completed(definition.get(name)) for name in PARTS}
    whole = {"version": "1.0", "truncation": None, "padding": None}
    whole |= {**definition, **parts, "added_tokens": added}
    whole.pop(CLEANED, None)  # which the library does not know
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(whole))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(
            "The `tokenizers` library does not read the definition of this tokenizer: "
            f"{str(error)[:200]}"
        ) from error


def bounded(library, start_id, end_id, max_length, between_words=None):
    """Returns a `tokenizers.Tokenizer` that puts texts between two tokens, as `Matcher` does.

    Args:
        library: The tokenizer, which is modified.
        start_id, end_id: The two tokens; the first may be `None` for none.
        max_length: Maximum number of tokens; longer texts are truncated.
        between_words: Pattern of the parts that become one space, for texts that are lower-cased;
            by default, texts are not changed.
    """
    tokenizers = _import_tokenizers()
    around = [(library.id_to_token(each), each) for each in (start_id, end_id) if each is not None]
    *start, end = (token for token, _ in around)
    library.post_processor = tokenizers.processors.TemplateProcessing(
        [*start, "$A", end], [*start, "$A", end, "$B", end], around
    )
    library.enable_truncation(max_length)
    if between_words is not None:
        normalizers = tokenizers.normalizers
        plain = [
            normalizers.Lowercase(),
            normalizers.Replace(tokenizers.Regex(between_words), " "),
            normalizers.Strip(),
        ]
        usual = [] if library.normalizer is None else [library.normalizer]
        library.normalizer = normalizers.Sequence([*plain, *usual])
    return library


def with_special_tokens(library, templates):
    """Returns a `tokenizers.Tokenizer` that puts the special tokens of a model around texts.

    Args:
        library: The tokenizer, which is modified unless it adds special tokens already.
        templates: The `templates.Item`s of a single text and of a pair.
    """
    if library.post_processor is not None:
        return library
    ids = {each for items in templates for item in items for each in item.token_ids}
    names = {each: library.id_to_token(each) for each in ids}

    def pieces_of(item):
        pieces = ["$" + "AB"[item.text]] if item.text is not None else []
        pieces += [names[each] for each in item.token_ids]
        return [f"{piece}:{item.segment}" for piece in pieces]

    single, pair = ([piece for item in items for piece in pieces_of(item)] for items in templates)
    special = [(name, each) for each, name in names.items()]
    library.post_processor = _import_tokenizers().processors.TemplateProcessing(
        single, pair, special
    )
    return library


def _completed(part):
    """Returns a part of a definition, completed with the options that the library requires."""
    if isinstance(part, list):
        return [_completed(each) for each in part]
    if not isinstance(part, dict):
        return part
    usual = USUAL.get(part.get("type"), {})
    return {**usual, **{name: _completed(each) for name, each in part.items()}}


def frequent_words(sentences, num_words, prefix_space):
    """Returns the most frequent words, their leading space included, the most frequent first."""
    counts = collections.Counter()
    for batch in tf.data.Dataset.from_tensor_slices(sentences).batch(1024):
        counts.update(split_words(batch, prefix_space).values.numpy().tolist())
    del counts[b""]
    return [word.decode("utf-8") for word, _ in counts.most_common(num_words)]


def learn_word_pieces(texts, vocabulary_size, special_tokens, lowercase, alphabet_size=500):
    """Returns a WordPiece vocabulary, a dictionary from pieces to ids, special tokens first.

    It is the same for the same texts: single characters get their ids before the training, because
    the library's trainer would assign them in the random order of its hash tables.
    """
    tokenizers = _import_tokenizers()
    library = tokenizers.Tokenizer(tokenizers.models.WordPiece())
    library.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    counts = collections.Counter()
    for text in texts:
        counts.update(library.normalizer.normalize_str(text))
    frequent = (char for char, _ in counts.most_common(alphabet_size))
    alphabet = sorted(char for char in frequent if not char.isspace())
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[*special_tokens, *alphabet, *(f"##{char}" for char in alphabet)],
        limit_alphabet=len(alphabet),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer)
    return dict(sorted(library.get_vocab().items(), key=lambda entry: entry[1]))


def _import_tokenizers():
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError("This needs the `tokenizers` library: pip install tokenizers") from error
    return tokenizers


def _tokenizer_around(model, prefix_space):
    """Returns a tokenizer of the library that splits words like `split_words`."""
    tokenizers = _import_tokenizers()
    pre_tokenizers = tokenizers.pre_tokenizers
    library = tokenizers.Tokenizer(model)
    if prefix_space:
        library.normalizer = tokenizers.normalizers.Prepend(" ")
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(WORD_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return library
