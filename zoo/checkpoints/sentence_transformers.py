"""Folders of sentence-transformers: what comes after the model of token vectors."""

from typing import NamedTuple

from zoo.storage import CONFIG
from zoo.storage.json_files import read_named_json

MODULES, SETTINGS = "modules.json", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
LARGEST = 2**20  # bytes
DENSE = r"[^.]*_Dense\..*"  # names of tensors without use for other tasks
_POOLINGS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_cls": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean": "mean",
    "pooling_mode_lasttoken": "last",
}
_ACTIVATIONS = {
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "linear",
}


class Modules(NamedTuple):
    """What comes after the model of token vectors.

    Attributes:
        pooling: `"first"`, `"mean"` or `"last"`.
        dense: List of dictionaries, one for each dense layer: its folder, `place`, and its `size`,
            `activation` and `use_bias`.
        options: Dictionary of the options of an embedder that do not depend on its core.
    """

    pooling: str
    dense: list
    options: dict


def is_embedder(folder):
    """Whether a folder is one of sentence-transformers."""
    return (folder / MODULES).is_file()


def modules_of(folder, longest):
    """Returns the `Modules` in `modules.json`.

    Args:
        folder: The folder.
        longest: Maximum number of tokens of the model.

    Raises:
        ValueError: If a module, or its setting, is not implemented; the message names it.
    """
    path = folder / MODULES
    prompts = _prompts(folder / PROMPTS)
    modules = read_named_json(path, LARGEST)
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules]
    last = kinds[-1:] if kinds[-1:] == ["Normalize"] else []
    dense = modules[2 : len(kinds) - len(last)]
    if kinds != ["Transformer", "Pooling", *["Dense"] * len(dense), *last]:
        raise ValueError(
            f"{path} has the modules {', '.join(kinds)}. Implemented: Transformer, Pooling, Dense, "
            "Normalize, the last two optional."
        )
    pooling = _pooling(folder, folder / modules[1]["path"] / CONFIG, any(prompts.values()))
    options = {"unit_length": bool(last)} | ({"prompts": prompts} if prompts else {})
    length = _content(folder / SETTINGS).get("max_seq_length")
    if length is not None:
        options["max_tokens"] = min(length, longest)
    return Modules(pooling, [_dense(folder, module["path"]) for module in dense], options)


def pooled(folder, options):
    """Completes the options of an encoder that embeds from `modules.json`, if there is one.

    Args:
        folder: The folder.
        options: Options of the encoder.

    Returns:
        The options, and a table of the names of the weights after the encoder.

    Raises:
        ValueError: If a module, or its setting, is not implemented; the message names it.
    """
    if not is_embedder(folder):
        return options, {}
    modules = modules_of(folder, options["max_length"])
    if modules.pooling == "last":
        raise ValueError(
            f"{folder} pools by the last token, which is only implemented for language models."
        )
    options = {**options, "pooling": modules.pooling, **modules.options}
    if not modules.dense:
        return options, {}
    if len(modules.dense) > 1 or not modules.dense[0]["use_bias"]:
        told = ", ".join(f"{each['place']} with bias={each['use_bias']}" for each in modules.dense)
        raise ValueError(
            f"{folder} has the dense layers {told}, which is not implemented for a text encoder: "
            "it should be one, with a bias."
        )
    (dense,) = modules.dense
    options |= {"pooler": dense["activation"], "vector_size": dense["size"]}
    return options, {"pooler": f"{dense['place']}.linear"}


def lowers_case(folder):
    """Whether an embedder turns texts into lower case before the tokenizer reads them."""
    return is_embedder(folder) and bool(_content(folder / SETTINGS).get("do_lower_case"))


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


def _dense(folder, place):
    """Returns a dense layer after pooling, as in `Modules`."""
    path = folder / place / CONFIG
    settings = read_named_json(path, LARGEST)
    activation = settings["activation_function"]
    if activation not in _ACTIVATIONS:
        raise ValueError(
            f"{path} says activation_function={activation!r}, which is not implemented. "
            f"Implemented: {', '.join(_ACTIVATIONS)}."
        )
    return {
        "place": place,
        "size": settings["out_features"],
        "activation": _ACTIVATIONS[activation],
        "use_bias": settings.get("bias", True),
    }


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
