"""Folders of sentence-transformers: what comes after the encoder of texts."""

from zoo.storage import CONFIG
from zoo.storage.json_files import read_named_json

MODULES, SETTINGS = "modules.json", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
LARGEST = 2**20  # bytes
_POOLINGS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_cls": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean": "mean",
}
_ACTIVATIONS = {
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "linear",
}


def pooled(folder, options):
    """Completes the options of an embedder from `modules.json`, if there is one.

    Args:
        folder: The folder.
        options: Options of the encoder.

    Returns:
        The options, and a table of the names of the weights after the encoder.

    Raises:
        ValueError: If a module, or its setting, is not implemented; the message names it.
    """
    path = folder / MODULES
    if not path.is_file():
        return options, {}
    prompts = _prompts(folder / PROMPTS)
    modules = read_named_json(path, LARGEST)
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules]
    optional = [kind for kind in kinds[2:] if kind in ("Dense", "Normalize")]
    if kinds != ["Transformer", "Pooling", *sorted(set(optional))]:
        raise ValueError(
            f"{path} has the modules {', '.join(kinds)}. Implemented: Transformer, Pooling, Dense, "
            "Normalize, the last two optional."
        )
    pooling = _pooling(folder, folder / modules[1]["path"] / CONFIG, any(prompts.values()))
    options, names = {**options, "pooling": pooling, "unit_length": "Normalize" in kinds}, {}
    if prompts:
        options["prompts"] = prompts
    if "Dense" in kinds:
        place = modules[2]["path"]
        options |= _dense(folder / place / CONFIG)
        names = {"pooler": f"{place}.linear"}
    length = _content(folder / SETTINGS).get("max_seq_length")
    if length is not None:
        options["max_tokens"] = min(length, options["max_length"])
    return options, names


def lowers_case(folder):
    """Whether an embedder turns texts into lower case before the tokenizer reads them."""
    is_embedder = (folder / MODULES).is_file()
    return is_embedder and bool(_content(folder / SETTINGS).get("do_lower_case"))


def _pooling(folder, path, has_prompts):
    """Returns the kind of pooling."""
    pooling = read_named_json(path, LARGEST)
    if has_prompts and not pooling.get("include_prompt", True):
        raise ValueError(
            f"{path} says include_prompt=false, which is not implemented: the tokens of a prompt "
            f"would not count. Remove the prompts in {folder / PROMPTS} to use none."
        )
    chosen = [key for key, value in pooling.items() if key.startswith("pooling_mode") and value]
    chosen = [f"pooling_mode_{pooling[key]}" if key == "pooling_mode" else key for key in chosen]
    if len(chosen) != 1 or chosen[0] not in _POOLINGS:
        raise ValueError(
            f"{folder} pools by {', '.join(chosen) or 'nothing'}, which is not implemented. "
            f"Implemented: {', '.join(_POOLINGS)}."
        )
    return _POOLINGS[chosen[0]]


def _dense(path):
    """Returns the options of the dense layer after pooling."""
    settings = read_named_json(path, LARGEST)
    activation = settings["activation_function"]
    if activation not in _ACTIVATIONS or not settings.get("bias", True):
        raise ValueError(
            f"{path} says activation_function={activation!r} and bias={settings.get('bias', True)},"
            f" which is not implemented. Implemented: {', '.join(_ACTIVATIONS)}, with a bias."
        )
    return {"pooler": _ACTIVATIONS[activation], "vector_size": settings["out_features"]}


def _prompts(path):
    """Returns the prompts of an embedder, a dictionary.

    Raises:
        ValueError: If texts get a prompt in front although nobody asked for one.
    """
    content = _content(path)
    name, prompts = content.get("default_prompt_name"), content.get("prompts") or {}
    if name is not None and prompts.get(name) != "":
        raise ValueError(
            f"{path} says default_prompt_name={name!r}, which is not implemented: every text would "
            f"begin with {prompts.get(name)!r}. Set it to null, and call embed(texts, "
            f"prompt={name!r})."
        )
    return prompts


def _content(path):
    return read_named_json(path, LARGEST) if path.is_file() else {}
