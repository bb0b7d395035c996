"""Folders of sentence-transformers: the pooling after the encoder of texts."""

from zoo.storage.json_files import read_json

MODULES, SETTINGS = "modules.json", "sentence_bert_config.json"
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
    kinds = [module["type"].rsplit(".", 1)[-1] for module in read_json(path, LARGEST)]
    expected = ["Transformer", "Pooling", "Normalize"]
    if kinds not in (expected, expected[:2]):
        raise ValueError(
            f"{path} has the modules {', '.join(kinds)}. Implemented: "
            f"{', '.join(expected)}, the last one optional."
        )
    pooling = read_json(folder / read_json(path, LARGEST)[1]["path"] / "config.json", LARGEST)
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
    settings = folder / SETTINGS
    length = read_json(settings, LARGEST).get("max_seq_length") if settings.is_file() else None
    return options if length is None else {**options, "max_tokens": length}
