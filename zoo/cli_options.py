"""Options that several commands share."""

import functools
import os
import pathlib
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

import zoo
from zoo.file_workers import require_workers


def require_writable(path):
    """Raises a `ValueError` early unless a folder with files can be created at a path."""
    there = next(each for each in [path, *path.absolute().parents] if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(
            f"{path} cannot be written: {there} is not a folder that you may write to. "
            "Choose another path."
        )


def _check_plot(context, option, path):
    """Returns the path of an option after checking that a plot can be written there."""
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
        raise ValueError(f"There is no folder {path.parent} for {path}. Create it first.")
    require_writable(path.parent)
    return path


def _check_workers(_context, _option, where):
    if where is not None:
        require_workers(where)
    return where


def _complete_name(_context, _argument, incomplete):
    """Returns what a shell offers for a name: trained models, or files for the start of a path."""
    if incomplete.startswith((".", "/", "~")):
        return [CompletionItem(incomplete, type="file")]
    names = (model.name for model in zoo.list_models() if model.card)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def name_argument(name="name", **options):
    """Returns the argument of a command that names a model, or several of them."""
    return click.argument(name, shell_complete=_complete_name, **options)


def show_attention_of(what):
    """Returns the option to save a plot of attention."""
    return click.option(
        "--show-attention",
        type=click.Path(dir_okay=False, writable=True, path_type=pathlib.Path),
        callback=_check_plot,
        help=f"Save a plot of {what} to FILE.",
    )


def with_options(options):
    """Returns a decorator that adds options to a command, in order."""

    def add(command):
        for option in reversed(options):
            command = option(command)
        return command

    return add


def given(options):
    """Returns a dictionary of the options that the user gave; others are `None`."""
    return {key: value for key, value in options.items() if value is not None}


def save_plot(result, path):
    """Saves a plot of the attention of a result's first input, and says so."""
    result.plot(0).savefig(path, bbox_inches="tight", dpi=150)
    click.echo(f"Wrote {path}.", err=True)


SEED = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of a random sampler."
)
SAMPLER = click.option(
    "--sampler", help="greedy, beam, random, top_k or top_p.  [default: the model's own]"
)
RANDOM = [
    click.option("--temperature", type=float, help="Temperature of a random sampler."),
    click.option("--top-k", "k", type=int, help="Number of tokens to sample from, for top_k."),
    click.option("--top-p", "p", type=float, help="Probability mass to sample from, for top_p."),
]
RULES = [
    click.option("--repetition-penalty", type=float, help="Above 1 to penalize repeated tokens."),
    click.option("--no-repeat-ngram-size", type=int, help="Forbid repeated n-grams of this size."),
    click.option("--min-length", type=int, help="Minimum number of tokens."),
]


def decoding_options(command):
    """Adds the options of tasks with beam search."""
    options = [
        SAMPLER,
        click.option("--num-beams", type=int, help="Number of beams in beam search."),
        click.option("--length-penalty", type=float, help="Exponent of the length in beam search."),
        click.option("--max-length", type=int, help="Maximum number of tokens."),
        *RANDOM,
        click.option("--seed", type=int, help="Seed of a random sampler."),
        *RULES,
    ]
    return with_options(options)(command)


PAIR = click.option(
    "--pair",
    is_flag=True,
    help="Read pairs of texts; in a file, text and text_pair, or the first two columns.",
)


def batch_size_of(default):
    """Returns the option for the number of inputs in a batch."""
    return click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Number of inputs to process at a time.",
    )


class Files(NamedTuple):
    """The file options of a command.

    Attributes:
        source: Path of the file, or folder, with the inputs.
        output: Path of the file of answers.
        workers: The workers, as for `zoo.file_workers.workers`, or `None` for this process.
    """

    source: pathlib.Path | None
    output: pathlib.Path | None
    workers: str | None


def with_files(what):
    """Adds the options to answer the rows of a file in another one, passed on as `files`."""
    options = [
        click.option(
            "--input",
            "source",
            type=click.Path(exists=True, path_type=pathlib.Path),
            help=f"{what}; requires --output.",
        ),
        click.option(
            "--output",
            type=click.Path(dir_okay=False, path_type=pathlib.Path),
            help="File for the answers: .jsonl, .tsv, or one answer per line. An interrupted run "
            "is resumed.",
        ),
        click.option(
            "--workers",
            callback=_check_workers,
            help="Workers for --input: a number of processes, or dask://HOST:PORT.  [default: this "
            "process]",
        ),
    ]

    def add(command):
        @functools.wraps(command)
        def with_their_files(source, output, workers, **arguments):
            return command(files=Files(source, output, workers), **arguments)

        return with_options(options)(with_their_files)

    return add
