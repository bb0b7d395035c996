"""Folders of sentence-transformers: the pooling after the encoder of texts."""

from zoo.storage.json_files import read_named_json

MODULES, SETTINGS = "modules.json", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
LARGEST = 2**20  # bytes


def pooled(folder, options):
    """Returns the options of an embedder, completed from `modules.json` if there is one.

    Args:
        folder: The folder.
        options: Options of the encoder.

    Raises:
        ValueError: If a module, or a kind of pooling, is not implemented; the message names it.
    """
    path = folder / MODULES
    if not path.is_file():
        return options
    _require_no_prompt(folder / PROMPTS)
    modules = read_named_json(path, LARGEST)
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules]
    expected = ["Transformer", "Pooling", "Normalize"]
    if kinds not in (expected, expected[:2]):
        raise ValueError(
            f"{path} has the modules {', '.join(kinds)}. Implemented: "
            f"{', '.join(expected)}, the last one optional."
        )
    pooling = read_named_json(folder / modules[1]["path"] / "config.json", LARGEST)
    chosen = [key for key, value in pooling.items() if key.startswith("pooling_mode") and value]
    chosen = [f"pooling_mode_{pooling[key]}" if key == "pooling_mode" else key for key in chosen]
    known = {
        "pooling_mode_cls_token": "first",
        "pooling_mode_cls": "first",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_mean": "mean",
    }
    if len(chosen) != 1 or chosen[0] not in known:
        raise ValueError(
            f"{folder} pools by {', '.join(chosen) or 'nothing'}, which is not implemented. "
            f"Implemented: {', '.join(known)}."
        )
    options = {**options, "pooling": known[chosen[0]], "unit_length": len(kinds) == 3}
    length = _content(folder / SETTINGS).get("max_seq_length")
    if length is None:
        return options
    return {**options, "max_tokens": min(length, options["max_length"])}


def lowers_case(folder):
    """Whether an embedder turns texts into lower case before the tokenizer reads them."""
    is_embedder = (folder / MODULES).is_file()
    return is_embedder and bool(_content(folder / SETTINGS).get("do_lower_case"))


def _require_no_prompt(path):
    """Raises a `ValueError` if texts get a prompt in front although nobody asked for one."""
    content = _content(path)
    name = content.get("default_prompt_name")
    prompt = (content.get("prompts") or {}).get(name)
    if name is not None and prompt != "":
        raise ValueError(
            f"{path} says default_prompt_name={name!r}, which is not implemented: every text would "
            f"begin with {prompt!r}. Set it to null, and put the prompt in front of texts yourself."
        )


def _content(path):
    return read_named_json(path, LARGEST) if path.is_file() else {}
