"""The command line: `python -m zoo list | info | translate | caption | generate | train | …`.

TensorFlow is imported, quietly, by the commands that need it.
"""

import itertools
import json
import os
import pathlib
import sys

import click

import zoo
from zoo import quiet
from zoo.files import PictureFolder, TextFile, answer_file, pictures_of
from zoo.readers import PICTURES

USER_ERRORS = (ValueError, OSError, ImportError)
TEXTS_AT_ONCE = 1024  # that are translated before the next ones, and written
ROWS_AT_ONCE = 256  # of a file, that are lost at most when the process is killed
INTERRUPTED = 130  # exit status of a program that Ctrl-C ended


class Commands(click.Group):
    """A group whose commands answer mistakes of users with one line instead of a traceback."""

    def invoke(self, context):
        try:
            return super().invoke(context)
        except BrokenPipeError:  # `| head`: click ends quietly
            raise
        except USER_ERRORS as error:
            raise click.ClickException(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            click.echo("\nStopped.", err=True)
            context.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(zoo.__version__, prog_name="keras-attention-zoo")
def main():
    """Ready models made of attention: use, train, measure and serve them."""


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
@click.argument("name")
def info_command(name):
    """Tell everything about the model NAME."""
    from zoo.storage.cards import measured

    model = zoo.info(name)
    click.echo(str(model))
    for protocol, entries in _by_protocol(model.card.get("quality", [])):
        if protocol:
            metrics = ", ".join(entry["metric"] for entry in entries)
            click.echo(f"  {measured(entries[0] | {'metric': metrics})}: {protocol}")
    training = model.card.get("training", {})
    titles = {"command": "trained by", "chosen_by": "chosen by", "remarks": "remarks"}
    for key, title in titles.items():
        if key in training:
            click.echo(f"  {title}: {training[key]}")


def _by_protocol(quality):
    """Returns pairs of a protocol and the neighbouring entries that were measured so on a split."""
    key = lambda entry: (entry.get("protocol"), entry.get("split"))  # noqa: E731
    return [(protocol, list(same)) for (protocol, _), same in itertools.groupby(quality, key)]


def _load(name, method):
    """Loads a model that has a method."""
    quiet.import_tensorflow()
    model = zoo.load(name)
    if not hasattr(model, method):
        task = model.task_name
        raise ValueError(f"{name} is for another task ({task}): it has no `{method}`.")
    return model


def _require_writable(path):
    """Raises a `ValueError` unless a path can be made a folder with files, now and not in hours."""
    there = next(each for each in [path, *path.absolute().parents] if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(
            f"Nothing can be written to {path}: {there} is no folder that you may write into. "
            "Choose another place."
        )


def _check_picture(context, option, path):
    """Returns the path of an option after making sure that a picture can be written there."""
    if path is None:
        return None
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ImportError(
            f'{option.opts[0]} needs matplotlib: pip install "keras-attention-zoo[plot]"'
        ) from error
    formats = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        endings = ", ".join(f".{each}" for each in formats)
        raise ValueError(f"{option.opts[0]} must end with one of {endings}. Received: {path}.")
    if not path.parent.exists():
        raise ValueError(f"There is no folder {path.parent} for {path}. Make it first.")
    _require_writable(path.parent)
    return path


def _show_attention(what):
    return click.option(
        "--show-attention",
        type=click.Path(dir_okay=False, writable=True, path_type=pathlib.Path),
        callback=_check_picture,
        help=what,
    )


def _with_options(options):
    """Returns a decorator that adds options to a command, in order."""

    def add(command):
        for option in reversed(options):
            command = option(command)
        return command

    return add


_SAMPLER = click.option(
    "--sampler", help="greedy, beam, random, top_k or top_p.  [default: the model's own]"
)
_RANDOM = [
    click.option("--temperature", type=float, help="Temperature of a random sampler."),
    click.option("--top-k", "k", type=int, help="Tokens to draw from, for top_k."),
    click.option("--top-p", "p", type=float, help="Probability to draw from, for top_p."),
]
_RULES = [
    click.option("--repetition-penalty", type=float, help="Above 1 against tokens said before."),
    click.option("--no-repeat-ngram-size", type=int, help="No n-gram of this size twice."),
    click.option("--min-length", type=int, help="Tokens at least."),
]


def _decoding_options(command):
    """Adds the options that every task with beam search has."""
    options = [
        _SAMPLER,
        click.option("--num-beams", type=int, help="Beams of beam search."),
        click.option("--length-penalty", type=float, help="Exponent of the length in beam search."),
        click.option("--max-length", type=int, help="Tokens at most."),
        *_RANDOM,
        click.option("--seed", type=int, help="Seed of a random sampler."),
        *_RULES,
    ]
    return _with_options(options)(command)


def _with_files(what):
    """Adds the options to answer the rows of a file in another."""
    options = [
        click.option(
            "--input",
            "source",
            type=click.Path(exists=True, path_type=pathlib.Path),
            help=f"{what}, for --output.",
        ),
        click.option(
            "--output",
            type=click.Path(dir_okay=False, path_type=pathlib.Path),
            help="File of answers: .jsonl, .tsv or lines. A run that broke off goes on.",
        ),
    ]
    return _with_options(options)


def _are_files(source, output, others):
    """Returns whether a command is to answer a file in another one."""
    if source is None and output is None:
        return False
    if source is None or output is None or others:
        raise ValueError("--input and --output go together, and take the place of arguments.")
    return True


def _answer_file(source, output, answer, at_once=ROWS_AT_ONCE, **job):
    rows = PictureFolder(source) if source.is_dir() else TextFile(source)
    _require_writable(output.absolute().parent)
    failed = answer_file(rows, output, answer, job, at_once)
    if failed:
        click.echo(f"{failed} rows could not be answered: see {output}.errors.", err=True)
        sys.exit(1)


@main.command()
@click.argument("name")
@click.argument("texts", nargs=-1)
@_with_files("File of texts: .jsonl, .tsv or lines")
@_decoding_options
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True)
@_show_attention("Draw the alignment of the first text into this picture.")
def translate(name, texts, source, output, show_attention, batch_size, sampler, **options):
    """Translate TEXTS, or the lines of standard input, with the model NAME.

    Writes one line for each text.
    """
    options = {key: value for key, value in options.items() if value is not None}
    if _are_files(source, output, texts):
        model = _load(name, "translate")
        first_seed = options.pop("seed", 0)
        settings = {"sampler": sampler, "batch_size": batch_size, **options}

        def answer(texts, before):
            translations = model.translate(texts, seed=first_seed + before, **settings)
            return [{"translation": each} for each in translations]

        _answer_file(source, output, answer, name=name, seed=first_seed, **settings)
        return
    if not texts:
        lines = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")
        texts = lines.replace("\r\n", "\n").split("\n")
        texts = texts[:-1] if texts[-1] == "" else texts
    model = _load(name, "translate")
    seed = options.pop("seed", 0)
    for number, some in enumerate(_batches(texts, TEXTS_AT_ONCE)):
        asked = {"sampler": sampler, "batch_size": batch_size, "seed": seed + number, **options}
        for translation in model.translate(some, **asked):
            click.echo(" ".join(translation.split("\n")))
        sys.stdout.flush()
    if show_attention and texts:
        result = model.translate([texts[0]], sampler, True, seed=seed, **options)
        result.plot(0).savefig(show_attention, bbox_inches="tight", dpi=150)
        click.echo(f"Wrote {show_attention}.", err=True)


@main.command()
@click.argument("name")
@click.argument("images", nargs=-1, type=click.Path(path_type=pathlib.Path))
@_with_files("Folder of pictures")
@_decoding_options
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@_show_attention("Draw into this picture where each word of the first caption looked.")
def caption(name, images, source, output, show_attention, batch_size, sampler, **options):
    """Describe the picture files IMAGES, or those in folders, with the model NAME.

    Writes a line for each; of several it begins with the file's name and a tab. What is no picture
    is told, and left out; the command then ends with status 1.
    """
    options = {key: value for key, value in options.items() if value is not None}
    if _are_files(source, output, images):
        model = _load(name, "caption")
        first_seed = options.pop("seed", 0)

        def answer(images, before):
            captions = model.caption(images, sampler, seed=first_seed + before, **options)
            return [{"caption": each} for each in captions]

        job = {"name": name, "seed": first_seed, "sampler": sampler, **options}
        _answer_file(source, output, answer, batch_size, **job)
        return
    _require_arguments(images, "pictures")
    files = [file for path in images for file in _pictures_of(path)]
    model = _load(name, "caption")
    is_one, failed, first = [*files] == [*images] and len(files) == 1, False, None
    for some in _batches(files, batch_size):
        found = _contents(some)
        failed = failed or len(found) < len(some)
        texts = model.caption(list(found.values()), sampler=sampler, **options) if found else []
        for file, text in zip(found, texts, strict=True):
            click.echo(text if is_one else f"{file}\t{text}")
        sys.stdout.flush()
        first = first or next(iter(found), None)
    if show_attention and first:
        result = model.caption([first], sampler, True, **options)
        result.plot(0).savefig(show_attention, bbox_inches="tight", dpi=150)
        click.echo(f"Wrote {show_attention}.", err=True)
    if failed:
        sys.exit(1)


@main.command()
@click.argument("name")
@click.argument("inputs", nargs=-1)
@_with_files("File of texts, .jsonl, .tsv or lines, or folder of pictures")
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@_show_attention("Draw into this picture what the model looked at in the first input.")
def classify(name, inputs, source, output, show_attention, batch_size):
    """Name the best label of each of INPUTS, texts or picture files, with the model NAME.

    Writes a line for each: the label, a tab, and its probability.
    """
    if not _are_files(source, output, inputs):
        _require_arguments(inputs, "texts or pictures")
    model = _load(name, "classify")
    if source is not None:

        def answer(inputs, before):
            result = model.classify(inputs, return_probabilities=True, batch_size=batch_size)
            pairs = zip(result.labels, result.probabilities, strict=True)
            return [{"label": label, "probability": f"{x.max():.4f}"} for label, x in pairs]

        _answer_file(source, output, answer, name=name, batch_size=batch_size)
        return
    for some in _batches(inputs, batch_size):
        result = model.classify(some, return_probabilities=True)
        for label, probabilities in zip(result.labels, result.probabilities, strict=True):
            click.echo(f"{label}\t{probabilities.max():.4f}")
        sys.stdout.flush()
    if show_attention:
        result = model.classify([inputs[0]], return_attention=True)
        result.plot(0).savefig(show_attention, bbox_inches="tight", dpi=150)
        click.echo(f"Wrote {show_attention}.", err=True)


def _require_arguments(arguments, what):
    if not arguments:
        raise ValueError(f"Name {what}, or give --input and --output.")


@main.command()
@click.argument("name")
@click.argument("text")
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=pathlib.Path))
@click.option("-k", type=click.IntRange(min=1), default=5, show_default=True, help="How many.")
def match(name, text, images, k):
    """Find those of the picture files IMAGES, or in folders, that fit TEXT best, by the model NAME.

    Writes a line for each, best first: the similarity, a tab, and the file.
    """
    files = [file for path in images for file in _pictures_of(path)]
    model = _load(name, "search")
    contents = _contents(files)
    if contents:
        found = model.search(text, list(contents.values()), k)
        names = list(contents)
        for place, similarity in zip(found.names, found.similarities, strict=True):
            click.echo(f"{similarity:.4f}\t{names[place]}")
    if len(contents) < len(files):
        sys.exit(1)


@main.command()
@click.argument("name")
@click.argument("inputs", nargs=-1, required=True)
def embed(name, inputs):
    """Write a line for each of INPUTS, texts or picture files: its vector by NAME, as JSON."""
    model = _load(name, "embed")
    sees = hasattr(model, "search")
    for each in inputs:
        is_picture = sees and pathlib.Path(each).suffix.lower() in PICTURES
        (vector,) = model.embed(images=[each]) if is_picture else model.embed(texts=[each])
        click.echo(json.dumps([round(float(number), 6) for number in vector]))


@main.command()
@click.argument("name")
@click.argument("texts", nargs=-1, required=True)
def tag(name, texts):
    """Write what each word of TEXTS is, by the model NAME.

    A line for each word: the word, a tab, its label; an empty line after each text.
    """
    model = _load(name, "tag")
    for tags in model.tag(list(texts)):
        for each in tags:
            click.echo(f"{each.word}\t{each.label}")
        click.echo()


@main.command("fill-mask")
@click.argument("name")
@click.argument("text")
@click.option("-k", type=click.IntRange(min=1), default=5, show_default=True, help="How many.")
def fill_mask(name, text, k):
    """Write what may stand behind the mask of TEXT, by the model NAME.

    A line for each candidate, best first: its probability, a tab, and the whole text. Of several
    masks each is filled on its own.
    """
    model = _load(name, "fill_mask")
    found = model.fill_mask(text, num_candidates=k)
    of_masks = [found] if text.count(model.mask) == 1 else found
    for candidates in of_masks:
        for each in candidates:
            click.echo(f"{each.probability:.4f}\t{each.text}")


def _batches(everything, size):
    """Yields lists of `size` neighbours, and of what is left."""
    for first in range(0, len(everything), size):
        yield list(everything[first : first + size])


def _pictures_of(path):
    """Returns a file, or the pictures in a folder."""
    if not path.is_dir():
        return [path]
    return pictures_of(path)


def _contents(files):
    """Returns a dictionary of picture files to their contents; what is none is told."""
    from zoo.readers.images import image_bytes

    found = {}
    for file in files:
        try:
            found[file] = image_bytes(file)
        except (ValueError, OSError) as error:
            click.echo(f"Error: {' '.join(str(error).split())}", err=True)
    return found


@main.command()
@click.argument("name")
@click.argument("text", default="")
@_with_files("File of prompts: .jsonl, .tsv or lines")
@click.option("--max-length", type=int, default=500, show_default=True, help="Tokens to add.")
@_with_options([_SAMPLER, *_RANDOM])
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of a random sampler.")
@_with_options(_RULES)
@click.option("--stop", multiple=True, help="Where to stop; may be given several times.")
def generate(name, text, source, output, max_length, sampler, seed, stop, **options):
    """Let the language model NAME go on with TEXT, written as it is generated."""
    options = {key: value for key, value in options.items() if value is not None}
    is_of_files = _are_files(source, output, text)
    model = _load(name, "stream")
    arguments = {"max_length": max_length, "sampler": sampler, "seed": seed, "stop": stop}
    if is_of_files:
        settings = {**arguments, **options}

        def answer(texts, before):
            asked = {**settings, "seed": seed + before}
            return [{"continuation": each} for each in model.generate(texts, **asked)]

        _answer_file(source, output, answer, name=name, **settings)
        return
    if model.sampler(sampler, **options).num_beams > 1:
        pieces = [model.generate(text, **arguments, **options)]
    else:
        pieces = model.stream(text, **arguments, **options)
    click.echo(text, nl=False)
    for piece in pieces:
        click.echo(piece, nl=False)
        sys.stdout.flush()
    click.echo()


_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Folder with the data set: the raw files of Multi30k, the archives of Flickr8k, both "
    "multi30k/ and tatoeba_en_de/, or what TFDS has prepared. By default it is downloaded, but for "
    "Flickr8k and Tatoeba.",
)


@main.command()
@click.argument("name")
@_data_dir
@click.option(
    "--run-dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Folder for checkpoints and logs; a run that broke off goes on.  [default: runs/NAME]",
)
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    help="Epochs instead of the recipe's; earlier and later stages keep theirs.",
)
def train(name, data_dir, run_dir, epochs):
    """Train the model NAME by its recipe, and write it as a preset to RUN_DIR/NAME."""
    quiet.import_tensorflow()
    from zoo.training import recipes

    run_dir = run_dir or pathlib.Path("runs") / name
    _require_writable(run_dir)
    folder = recipes.run(name, data_dir, run_dir, epochs)
    click.echo(f"Wrote {folder}. Load it by zoo.load({str(folder)!r}).")


@main.command()
@click.argument("name")
@_data_dir
@click.option("--split", help="Part of the data.  [default: its test parts]")
@click.option("--num-beams", type=int, help="Beams of beam search.")
@click.option("--length-penalty", type=float, help="Exponent of the length in beam search.")
def evaluate(name, data_dir, split, **options):
    """Measure the model NAME on the data set of its recipe, each number with its protocol."""
    quiet.import_tensorflow()
    from zoo.training import recipes

    model = zoo.load(name)
    recipe = recipes.of_card(zoo.info(name).card)
    options = {key: value for key, value in options.items() if value is not None}
    model.default_sampler = model.sampler(**options)
    for part in [split] if split else recipe.test_splits:
        scores = recipe.evaluate(model, recipe.load(part, data_dir))
        click.echo(f"{name} on {part}")
        for protocol, entries in _by_protocol(recipe.quality(scores, part, model)):
            for entry in entries:
                click.echo(f"{entry['value']:10}  {entry['metric']}")
            click.echo(f"{'':12}({protocol})")


@main.command()
@click.argument("name")
@click.argument("path", type=click.Path(path_type=pathlib.Path))
@click.option(
    "--format",
    type=click.Choice(["tf_saved_model", "onnx", "litert"]),
    help="What to write.  [default: tf_saved_model]",
)
@click.option(
    "--jit/--no-jit", "jit_compile", default=None, help="Add serving_jit.  [default: jit]"
)
def export(name, path, **options):
    """Write the model NAME for others to serve.

    A SavedModel for TF Serving goes to PATH/1, PATH/2, ...; files for ONNX Runtime or LiteRT go
    into a new folder PATH.
    """
    quiet.import_tensorflow()
    from zoo import serving

    options = {key: value for key, value in options.items() if value is not None}
    is_folder = options.get("format") in serving.GRAPH_FORMATS
    (serving.require_free if is_folder else serving.require_versions)(path)
    _require_writable(path)
    click.echo(zoo.load(name).export(path, **options))


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8501, show_default=True)
@click.option(
    "--token", envvar="ZOO_TOKEN", help="What clients send as Authorization: Bearer TOKEN."
)
@click.option("--batch/--no-batch", default=True, help="Whether concurrent requests share batches.")
def serve(names, host, port, token, batch):
    """Serve the models NAME by HTTP: names of models, presets, or folders of exported versions.

    The protocols are those of TF Serving, /v1/models/NAME:predict, and, for language models, of
    OpenAI, /v1/completions.
    """
    quiet.import_tensorflow()
    try:
        from zoo import server
    except ImportError as error:
        raise ImportError(
            f'zoo serve needs {error.name}: pip install "keras-attention-zoo[server]"'
        ) from error

    models = [server.model_of(name, batch) for name in names]
    click.echo(f"Serving {', '.join(model.name for model in models)} at http://{host}:{port}")
    server.run(models, host, port, token)


@main.command("serving-config")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path))
@click.option(
    "--seen-as",
    default="/models",
    show_default=True,
    help="Where the server sees FOLDER, such as the place where a container mounts it.",
)
def serving_config(folder, seen_as):
    """Write models.config and batching.config for TF Serving and the SavedModels below FOLDER."""
    quiet.import_tensorflow()
    from zoo import serving

    for path in serving.write_server_config(folder, seen_as):
        click.echo(path)
