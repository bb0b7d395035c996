"""Reads tokenizers from folders that `transformers` wrote."""

import pathlib
import re

from zoo.readers.text.library import CLEANED
from zoo.readers.text.models import kind_of, vocabulary_of
from zoo.readers.text.special_tokens import USUAL, content_of
from zoo.readers.text.templates import templates_of
from zoo.readers.text.tokenizer import Tokenizer
from zoo.readers.text.tokenizer_files import LARGEST_FILE
from zoo.readers.text.vocabulary_files import definition_of
from zoo.storage.json_files import read_named_json

# For each role, these tokens are used if a folder names them: the one that the template puts around
# texts, otherwise the first.
_TOKENS = {
    "pad": ("pad_token",),
    "start": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "mask": ("mask_token",),
    "unknown": ("unk_token",),
}
# Of NLLB, M2M100 and mBART.
_LANGUAGE = re.compile("[a-z]{3}_[A-Z][a-z]{3}|__[a-z]+__|[a-z]{2}_[A-Z]{2}")
_OF_BERT = {  # options of the normalizer, by their names in `tokenizer_config.json`
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_NO_LIMIT = 10**9  # where transformers knows no maximum, files say 10**30
_GENERATES = re.compile("(LMHeadModel|ForCausalLM|MTModel|ForConditionalGeneration)$")  # classes
_WITHOUT_OPTIONS = "PreTrainedTokenizerFast", "TokenizersBackend"  # which take the file as it is


def read_tokenizer(folder, side="source", size=None, lowercase=False, left_out=(), **roles):
    """Reads the tokenizer of a folder, whose kind depends on the files.

    `tokenizer.json` comes first, otherwise `vocab.txt` (WordPiece), `vocab.json` with `merges.txt`
    (the BPE of GPT-2, RoBERTa, CLIP and Qwen2), `source.spm` and `target.spm` (Marian),
    `spiece.model` (T5, PEGASUS), `spm.model` (DeBERTa), `sentencepiece.bpe.model` (XLM-RoBERTa,
    mBART, with `vocab.json` M2M100) or `tokenizer.model` (Llama). SigLIP's `spiece.model` comes
    before its `tokenizer.json`, as in transformers.
    `tokenizer_config.json`, `special_tokens_map.json` and `generation_config.json` name the special
    tokens; those that no file names are those of the class in transformers. As there, options of
    `tokenizer_config.json` such as `do_lower_case` and `truncation_side` overrule `tokenizer.json`,
    `clean_up_tokenization_spaces` removes the spaces in front of punctuation in decoded texts,
    except of BPE, and older folders list further tokens in `added_tokens.json`.

    Marian's language codes, such as `>>fr<<`, are found anywhere in a text.

    Args:
        folder: The folder.
        side: `"source"` or `"target"`, for Marian, which has two sides.
        size: As for `Tokenizer`.
        lowercase: Whether to turn texts into lower case first, whatever the tokenizer does.
        left_out: Added tokens to leave out if their ids are not below `size`.
        **roles: Tokens in place of those that the files name, as for `Tokenizer`:
            `start="<pad>"`; or their ids. An id without a token becomes one that texts do not hold.

    Returns:
        A `Tokenizer`.

    Raises:
        ValueError: If there is no tokenizer, or it requires something that is not implemented; the
            message says what.
    """
    folder = pathlib.Path(folder)
    config, named = _json(folder / "tokenizer_config.json"), _named(folder)
    try:
        definition, defaults = _definition(folder, config, side)
        _add_tokens(definition, config, named, _json(folder / "added_tokens.json"))
        gone = _leave_out(definition, left_out, size)
        _hide_times(definition)
        if config.get(CLEANED) and not kind_of(definition["model"]).endswith("BPE"):
            definition[CLEANED] = True  # transformers leaves out BPE, which keeps all spaces
        if lowercase:
            normalizers = [{"type": "Lowercase"}, definition.get("normalizer")]
            definition["normalizer"] = {
                "type": "Sequence",
                "normalizers": [*filter(None, normalizers)],
            }
        names = _names(definition)
        defaults = defaults or _usual(_kind(folder, config), names)
        single, _ = templates_of(definition.get("post_processor"))
        around = {names.get(number) for item in single for number in item.token_ids}
        of_roles = {**defaults, **{key: named[key] for key in named if named[key]}}
        found = _roles(of_roles, around, gone)
        found = {**found, **_ends(folder, names)}
        roles = {role: _token_of(token, role, names, definition) for role, token in roles.items()}
        side, longest = _truncation_side(definition, config), _longest_pair(config)
        return Tokenizer(definition, {**found, **roles}, size, side, longest)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{folder} does not hold a tokenizer: {error!r}") from error
    except ValueError as error:
        raise ValueError(f"The tokenizer in {folder} cannot be read: {error}") from error


def language_tokens(folder):
    """Returns the tokens of languages of a model of many, a dictionary from codes to tokens.

    They are such as `eng_Latn` of NLLB, `en_XX` of mBART, and `__en__` of M2M100, whose code is
    `en`.

    Args:
        folder: The folder.
    """
    folder = pathlib.Path(folder)
    config = _json(folder / "tokenizer_config.json")
    definition, _ = _definition(folder, config, "source")
    _add_tokens(definition, config, _named(folder), _json(folder / "added_tokens.json"))
    tokens = sorted(token["content"] for token in definition["added_tokens"])
    return {token.strip("_"): token for token in tokens if _LANGUAGE.fullmatch(token)}


def special_tokens_of(folder):
    """Returns a dictionary of the special tokens that the files of a folder name."""
    return {
        name: content_of(token)
        for name, token in _named(folder).items()
        if name.endswith("_token") and isinstance(content_of(token), str)
    }


def _named(folder):
    """Returns the content of the files that name special tokens."""
    files = "special_tokens_map.json", "tokenizer_config.json"
    return {name: value for file in files for name, value in _json(folder / file).items()}


def _definition(folder, config, side):
    """Returns the definition, and the special tokens to use if no file names them."""
    kind = _kind(folder, config)
    of_pieces = kind == "Siglip" and (folder / "spiece.model").is_file()
    if of_pieces or not (folder / "tokenizer.json").is_file():
        return definition_of(folder, kind, config, side)
    definition = read_named_json(folder / "tokenizer.json", LARGEST_FILE)
    _require_same_template(definition, config, kind)
    _overrule(definition, config)
    return definition, {}


def _kind(folder, config):
    """Returns `"Bert"` for a `BertTokenizerFast`, or by the model's type; `""` if unknown."""
    settings = _json(folder / "config.json")
    name = config.get("tokenizer_class") or settings.get("tokenizer_class") or ""
    if name and name != "PreTrainedTokenizerFast":
        name = name.removesuffix("Fast").removesuffix("Tokenizer")
        return {"Bart": "Roberta", "Longformer": "Roberta", "MT5": "T5"}.get(name, name)
    types = {"bert": "Bert", "roberta": "Roberta", "gpt2": "GPT2", "clip": "CLIP", "t5": "T5"}
    types |= {"qwen2": "Qwen2", "llama": "Llama", "distilbert": "DistilBert", "mpnet": "MPNet"}
    types |= {"electra": "Electra", "marian": "Marian", "mistral": "Llama", "whisper": "Whisper"}
    types |= {
        "albert": "Albert",
        "bart": "Roberta",
        "blip": "Bert",
        "camembert": "Camembert",
        "deberta-v2": "DebertaV2",
        "esm": "Esm",
        "gemma": "Gemma",
        "gemma2": "Gemma",
        "gemma3_text": "Gemma",
        "gpt_neo": "GPT2",
        "gpt_neox": "GPTNeoX",
        "longformer": "Roberta",
        "m2m_100": "M2M100",
        "mbart": "MBart",
        "mt5": "T5",
        "opt": "GPT2",
        "pegasus": "Pegasus",
        "phi3": "Llama",
        "qwen3": "Qwen2",
        "siglip": "Siglip",
        "umt5": "T5",
        "xlm-roberta": "XLMRoberta",
    }
    return types.get(settings.get("model_type"), "")


def _require_same_template(definition, config, kind):
    """Classes of Llama and Gemma rebuild the template from options; the file must agree.

    That of a model of bytes is used as it is, such as DeepSeek's.
    """
    rebuilds = kind in ("Llama", "CodeLlama", "Gemma", "Siglip2") and "add_bos_token" in config
    if not rebuilds or (definition.get("decoder") or {}).get("type") == "ByteLevel":
        return
    processor = definition.get("post_processor") or {}
    single = [
        entry
        for each in processor.get("processors", [processor])
        for entry in each.get("single") or []
    ]
    special = [entry["SpecialToken"]["id"] for entry in single if "SpecialToken" in entry]
    for option, token in (("add_bos_token", "bos_token"), ("add_eos_token", "eos_token")):
        wanted, token = config.get(option), content_of(config.get(token))
        if wanted is not None and bool(wanted) != (token in special):
            raise ValueError(
                f"tokenizer_config.json says {option}={wanted}, and the template in tokenizer.json "
                "says otherwise."
            )


def _overrule(definition, config):
    """Sets the options that classes of transformers take from `tokenizer_config.json`."""
    if config.get("tokenizer_class") in _WITHOUT_OPTIONS:
        return
    normalizer, words = (definition.get(part) or {} for part in ("normalizer", "pre_tokenizer"))
    if normalizer.get("type") == "BertNormalizer":
        named = {ours: config.get(theirs) for theirs, ours in _OF_BERT.items()}
        normalizer.update({name: value for name, value in named.items() if value is not None})
    if words.get("type") == "ByteLevel" and config.get("add_prefix_space") is not None:
        words["add_prefix_space"] = config["add_prefix_space"]


def _add_tokens(definition, config, named, older):
    """Adds the tokens that the definition lacks.

    Args:
        definition: The definition.
        config: Content of `tokenizer_config.json`.
        named: Dictionary of special tokens by the names that files give them.
        older: Content of `added_tokens.json`: a dictionary from tokens to ids.
    """
    roles = [named[name] for name in named if name.endswith("_token")]
    roles += named.get("additional_special_tokens") or []
    special = set(map(content_of, roles))
    tokens = {token["content"]: token for token in definition.get("added_tokens", [])}
    for number, token in (config.get("added_tokens_decoder") or {}).items():
        tokens.setdefault(token["content"], {**token, "id": int(number)})
    is_raw = kind_of(definition["model"]).startswith("SentencePiece")
    for token, number in older.items():
        is_special = token in special
        flags = {"special": is_special, "normalized": not (is_special or is_raw)}
        tokens.setdefault(token, {"id": number, "content": token, **flags})
    definition["added_tokens"] = [*tokens.values()]


def _leave_out(definition, left_out, size):
    """Removes some added tokens that a model has no place for, and returns them."""
    tokens, vocabulary = definition["added_tokens"], definition["model"]["vocab"]
    gone = [
        token["content"]
        for token in tokens
        if token["content"] in left_out and size is not None and token["id"] >= size
    ]
    definition["added_tokens"] = [token for token in tokens if token["content"] not in gone]
    for content in gone:
        if isinstance(vocabulary, dict):
            vocabulary.pop(content, None)
    return gone


def _hide_times(definition):
    """Makes Whisper's timestamps, such as `<|0.02|>`, special tokens, so that texts omit them."""
    for token in definition["added_tokens"]:
        if re.fullmatch(r"<\|\d+\.\d+\|>", token["content"]):
            token["special"] = True


def _usual(kind, names):
    """Returns the special tokens of a class of transformers that a vocabulary has."""
    known = set(names.values())
    return {name: token for name, token in USUAL.get(kind, {}).items() if token in known}


def _roles(tokens, around, gone):
    """Returns the tokens of the roles.

    Args:
        tokens: Dictionary of special tokens by the names that files give them.
        around: The tokens that the template puts around a text.
        gone: Tokens that were left out.
    """
    roles = {}
    for role, names in _TOKENS.items():
        found = [content_of(tokens[name]) for name in names if tokens.get(name)]
        found = [token for token in found if token not in gone]
        if found:
            roles[role] = next((token for token in found if token in around), found[0])
    return roles


def _truncation_side(definition, config):
    """Returns the side on which texts are truncated."""
    usual = (definition.get("truncation") or {}).get("direction", "right")
    return (config.get("truncation_side") or usual).lower()


def _longest_pair(config):
    """Returns the maximum number of tokens of a pair of texts; `None` if a file says none."""
    longest = config.get("model_max_length") or _NO_LIMIT
    return None if longest >= _NO_LIMIT else longest


def _names(definition):
    """Returns a dictionary from ids to pieces and added tokens."""
    names = {number: piece for piece, number in vocabulary_of(definition["model"]).items()}
    return names | {token["id"]: token["content"] for token in definition["added_tokens"]}


def _ends(folder, names):
    """Returns the tokens that end a text, if the generation settings name them.

    In older folders, these are in the config of the model, where only models that generate texts
    use them.
    """
    settings = _json(folder / "generation_config.json")
    if not (folder / "generation_config.json").is_file():
        settings = _json(folder / "config.json")
        if not any(map(_GENERATES.search, settings.get("architectures") or [])):
            return {}
    numbers = settings.get("eos_token_id")
    if isinstance(numbers, list):
        return {"end": [names[number] for number in numbers]}
    return {"end": names[numbers]} if numbers in names else {}


def _token_of(token, role, names, definition):
    """Returns the token of a role, given it or its id; adds one to the definition if it is new."""
    if isinstance(token, str):
        return token
    if token in names:
        return names[token]
    new = {"id": token, "content": f"<|{role}|>", "special": True, "only_as_id": True}
    definition["added_tokens"].append(new)
    return new["content"]


def _json(path):
    return read_named_json(path, LARGEST_FILE) if path.is_file() else {}
