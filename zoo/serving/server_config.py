"""The configuration files of TF Serving: models, batching and monitoring."""

import os
import pathlib

from zoo.atomic import whole
from zoo.serving.buckets import ROWS

MODELS, BATCHING, MONITORING = "models.config", "batching.config", "monitoring.config"
BATCH_TIMEOUT_MICROSECONDS = 2000
METRICS = 'prometheus_config { enable: true, path: "/monitoring/prometheus/metrics" }\n'
MODEL = """  config {{
    name: {name}
    base_path: {base_path}
    model_platform: "tensorflow"
  }}
"""


def write_server_config(folder, seen_as="/models"):
    """Writes the configuration of TF Serving for a folder of exported models.

    `models.config` lists the models: every folder below it that holds versions, by its name.
    `batching.config` is for `--batching_parameters_file`, `monitoring.config` for
    `--monitoring_config_file`.

    Args:
        folder: Folder of exported models.
        seen_as: Path of the same folder on the server, such as its mount point in a container.

    Returns:
        `pathlib.Path` of each file.

    Raises:
        ValueError: If there is no exported model, or two have the same name.
    """
    folder = pathlib.Path(folder)
    models = _models(folder)
    if not models:
        raise ValueError(
            f"There is no exported model below {folder}: no folder NAME/1 with a saved_model.pb. "
            f"Export one: model.export({str(folder / 'NAME')!r})."
        )
    contents = {
        MODELS: _models_config(models, seen_as.rstrip("/")),
        BATCHING: batching_config(),
        MONITORING: METRICS,
    }
    for name, text in contents.items():
        with whole(folder / name) as unfinished:  # a server may be reading
            unfinished.write_text(text, encoding="utf-8")
    return tuple(folder / name for name in contents)


def batching_config():
    """Returns the batching parameters: the batch sizes are those that XLA compiles for.

    Requests that arrive within two milliseconds are answered as one batch. The server refuses a
    request that is larger than the largest batch.
    """
    return (
        f"max_batch_size {{ value: {ROWS[-1]} }}\n"
        f"batch_timeout_micros {{ value: {BATCH_TIMEOUT_MICROSECONDS} }}\n"
        "# One for each core of the server.\n"
        f"num_batch_threads {{ value: {os.cpu_count()} }}\n"
        + "".join(f"allowed_batch_sizes: {rows}\n" for rows in ROWS)
    )


def _models(folder):
    """Returns the folders of models below a folder by name, relative to it."""
    models = {}
    for file in sorted(folder.rglob("saved_model.pb")):
        version, model = file.parent, file.parent.parent.relative_to(folder)
        if not version.name.isdecimal() or version.parent == folder:
            continue
        if models.setdefault(model.name, model) != model:
            raise ValueError(
                f"Two models have the same name: {models[model.name]} and {model} below {folder}. "
                "Rename the folder of one."
            )
    return models


def _models_config(models, seen_as):
    configs = (
        MODEL.format(name=_quoted(name), base_path=_quoted(f"{seen_as}/{model.as_posix()}"))
        for name, model in models.items()
    )
    return f"model_config_list {{\n{''.join(configs)}}}\n"


def _quoted(text):
    """Returns a string in the text format of protocol buffers."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
