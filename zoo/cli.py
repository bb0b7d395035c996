"""The command line: `python -m zoo list | info | translate | caption | transcribe | train | …`.

The commands that need TensorFlow import it, quietly.
"""

import importlib
import inspect
import itertools
import os
import pathlib
import sys
from importlib.util import find_spec

import click

import zoo
from zoo import cli_answers, cli_chat, cli_match, cli_media, cli_pairs, quiet
from zoo.cli_options import given, name_argument, require_writable

USER_ERRORS = (ValueError, OSError, ImportError)
TOKEN = "ZOO_TOKEN"
INTERRUPTED = 130  # exit status of a program stopped with Ctrl-C


class Commands(click.Group):
    """A group whose commands report user errors in one line instead of a traceback."""

    def invoke(self, context):
        _open_closed_outputs()
        try:
            return super().invoke(context)
        except BrokenPipeError:  # `| head`: click ends quietly
            raise
        except USER_ERRORS as error:
            raise click.ClickException(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            click.echo("\nStopped.", err=True)
            context.exit(INTERRUPTED)


def _open_closed_outputs():
    """Lets closed outputs, as after `>&-` or `2>&-`, lead nowhere.

    Python has no file for them then. And the next file that is opened, such as that of the answers,
    would take the place of standard error, to which libraries log.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(zoo.__version__, prog_name="keras-attention-zoo")
def main():
    """Ready-to-use models with attention: use, train, evaluate and serve them."""


for _command in (
    *cli_answers.COMMANDS,
    cli_chat.chat,
    cli_match.match,
    *cli_media.COMMANDS,
    *cli_pairs.COMMANDS,
):
    main.add_command(_command)


@main.command("list")
def list_command():
    """List all models, trained ones first."""
    rows = []
    for model in zoo.list_models():
        quality = next(reversed(model.quality.items()), None)
        measured = f"{quality[0]}: {quality[1]}" if quality else "weights=None, to train"
        size = f"{model.megabytes:.1f} MB" if model.card else ""
        rows.append([model.name, model.task, model.data, size, measured])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(map(str.ljust, row, widths)).rstrip())


@main.command("info")
@name_argument()
def info_command(name):
    """Show all information about the model NAME."""
    from zoo.catalog import wrapped
    from zoo.storage.cards import measured

    if "://" in name or ".zip" in name:  # what gets models from elsewhere needs it
        quiet.import_tensorflow()
    model = zoo.info(name)
    click.echo(str(model))
    for protocol, entries in _by_protocol(model.card.get("quality", [])):
        if protocol:
            metrics = ", ".join(entry["metric"] for entry in entries)
            told = f"{measured(entries[0] | {'metric': metrics})}: {protocol}"
            click.echo("\n".join(wrapped("  protocol: ", told)))
    training = model.card.get("training", {})
    titles = {"command": "trained by", "chosen_by": "model selection", "remarks": "remarks"}
    for key, title in titles.items():
        if key in training:
            click.echo("\n".join(wrapped(f"  {title}: ", training[key])))


def _by_protocol(quality):
    """Returns pairs of a protocol and the consecutive entries measured with it on a split."""
    key = lambda entry: (entry.get("protocol"), entry.get("split"))  # noqa: E731
    return [(protocol, list(same)) for (protocol, _), same in itertools.groupby(quality, key)]


_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Folder with the data set: the raw files of Multi30k, the unpacked archives of Flickr8k, "
    "multi30k/ next to tatoeba_en_de/ or flickr8k/, or data prepared by TFDS. By default, data "
    "sets are downloaded, except for Flickr8k and Tatoeba.",
)


# Recipes import some of these when they measure, which may be hours after they began.
_OF_EVALUATION = "tensorflow_datasets", "sacrebleu", "sacremoses", "pycocoevalcap"
_OF_TRAINING = *_OF_EVALUATION, "tensorboard"


def _recipes(libraries):
    """Returns the module of the recipes, or raises an `ImportError` if a library is missing."""
    for library in libraries:
        if not find_spec(library):
            raise ImportError(
                f'zoo train and zoo evaluate need {library}: pip install "keras-attention-zoo'
                '[train]"'
            )
    quiet.import_tensorflow()
    return importlib.import_module("zoo.training.recipes")


@main.command()
@name_argument()
@_data_dir
@click.option(
    "--run-dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Folder for checkpoints and logs; an interrupted run is resumed.  [default: runs/NAME]",
)
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    help="Number of epochs, in place of the recipe's; earlier and later stages keep theirs.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Random seed, in place of the recipe's.",
)
@click.option(
    "--strategy",
    type=click.Choice(["mirrored"]),
    help="Train on all GPUs of this machine, each with a part of every batch.  [default: one]",
)
def train(name, data_dir, run_dir, epochs, seed, strategy):
    """Train the model NAME with its recipe, and write it as a preset to RUN_DIR/NAME.

    To train a model on your own data, use Python: zoo.load(...).fit(...).
    """
    recipes = _recipes(_OF_TRAINING)
    import tensorflow as tf

    run_dir = run_dir or pathlib.Path("runs") / name
    require_writable(run_dir)
    of_devices = tf.distribute.MirroredStrategy() if strategy else tf.distribute.get_strategy()
    with of_devices.scope():
        folder = recipes.run(name, data_dir, run_dir, epochs, seed)
    click.echo(f"Wrote {folder}. Load it with zoo.load({str(folder)!r}).")


@main.command()
@name_argument()
@_data_dir
@click.option("--split", help="Split of the data.  [default: the test splits, or validation]")
@click.option("--num-beams", type=int, help="Number of beams in beam search.")
@click.option("--length-penalty", type=float, help="Exponent of the length in beam search.")
def evaluate(name, data_dir, split, **options):
    """Evaluate the model NAME on the data set of its recipe.

    Prints each metric with its protocol.
    """
    recipes = _recipes(_OF_EVALUATION)
    model = zoo.load(name)
    recipe = recipes.of_card(zoo.info(name).card)
    options = given(options)
    if hasattr(model, "sampler"):
        model.default_sampler = model.sampler(**options)
    elif options:
        raise ValueError(f"{name} does not generate: it does not take {', '.join(options)}.")
    for part in [split] if split else recipe.test_splits:
        scores = recipe.evaluate(model, recipe.load(part, data_dir))
        click.echo(f"{name} on {part}")
        for protocol, entries in _by_protocol(recipe.quality(scores, part, model)):
            for entry in entries:
                click.echo(f"{entry['value']:10}  {entry['metric']}")
            click.echo(f"{'':12}({protocol})")


@main.command()
@name_argument()
@click.argument("path", type=click.Path(path_type=pathlib.Path))
@click.option(
    "--format",
    type=click.Choice(["tf_saved_model", "onnx", "litert"]),
    help="Format of the export.  [default: tf_saved_model]",
)
@click.option(
    "--jit/--no-jit",
    "jit_compile",
    default=None,
    help="Whether to add the signature serving_jit, compiled with XLA.  [default: jit]",
)
def export(name, path, **options):
    """Export the model NAME for serving.

    A SavedModel for TensorFlow Serving is written to PATH/1, PATH/2, and so on; files for ONNX
    Runtime or LiteRT are written to a new folder PATH.
    """
    quiet.import_tensorflow()
    from zoo import serving

    options = given(options)
    is_folder = options.get("format") in serving.GRAPH_FORMATS
    (serving.require_free if is_folder else serving.require_versions)(path)
    require_writable(path)
    model = zoo.load(name)
    unknown = options.keys() - inspect.signature(model.export).parameters.keys()
    if unknown:
        flags = {"format": "--format", "jit_compile": "--jit"}
        told = " and ".join(flags[each] for each in sorted(unknown))
        raise ValueError(f"{name} is for {model.task_name}: its export does not take {told}.")
    click.echo(model.export(path, **options))


@main.command()
@name_argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8501,
    show_default=True,
    help="Port to listen on; 0 for any that is free.",
)
@click.option(
    "--token",
    envvar=TOKEN,
    show_envvar=True,
    help="Token that clients send as Authorization: Bearer TOKEN.",
)
@click.option("--batch/--no-batch", default=True, help="Whether concurrent requests share batches.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Threads per batch. One is best for many concurrent requests; more answer a single "
    "request to a large model faster.",
)
def serve(names, host, port, token, batch, threads):
    """Serve the models NAME over HTTP: names of models, presets, or folders of exported versions.

    The protocols are that of TensorFlow Serving, /v1/models/NAME:predict, and that of OpenAI:
    /v1/completions and /v1/chat/completions for language models, /v1/embeddings for models that
    turn texts into vectors, /v1/audio/transcriptions for models that turn speech into text.
    """
    quiet.import_tensorflow()
    import tensorflow as tf

    try:
        from zoo import server
    except ImportError as error:
        raise ImportError(
            f'zoo serve needs {error.name}: pip install "keras-attention-zoo[server]"'
        ) from error

    # click takes an empty variable for none, and would let everybody in.
    token = os.environ.get(TOKEN) if token is None else token
    server.require_sendable(token)
    server.require_distinct([server.name_of(name) for name in names])
    bound = server.bind(host, port)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    models = [server.model_of(name, batch) for name in names]
    place = f"[{host}]" if ":" in host else host
    told = f"http://{place}:{bound.getsockname()[1]}"
    click.echo(f"Serving {', '.join(model.name for model in models)} at {told}")
    server.run(models, bound, token)


@main.command("serving-config")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path))
@click.option(
    "--seen-as",
    default="/models",
    show_default=True,
    help="Path of FOLDER on the server, such as its mount point in a container.",
)
def serving_config(folder, seen_as):
    """Write the configuration of TensorFlow Serving for the SavedModels in FOLDER.

    The files are models.config, batching.config, and monitoring.config for Prometheus.
    """
    quiet.import_tensorflow()
    from zoo import serving

    for path in serving.write_server_config(folder, seen_as):
        click.echo(path)
