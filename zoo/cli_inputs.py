"""The input handling of the commands that use a model."""

import functools
import os
import pathlib
import sys

import click

import zoo
from zoo import quiet
from zoo.cli_options import require_writable
from zoo.files import (
    TEXT,
    FileFolder,
    TextFile,
    answer_file,
    answers_of,
    refuse_utf16,
    require_unanswered,
    state_of,
)
from zoo.readers import files_of

PAIR_OF_TEXTS = TEXT, "text_pair"  # as an exported classifier calls them
ROWS_AT_ONCE = 256  # rows of a file; at most this many are lost if the process is killed


def load(name, method, **options):
    """Loads a model that has a method; options as for `zoo.load`."""
    quiet.import_tensorflow()
    model = zoo.load(name, **options)
    if not hasattr(model, method):
        task = model.task_name
        raise ValueError(f"{name} is for another task ({task}): it has no `{method}`.")
    return model


def matches_images_and_texts(model):
    """Whether a model is a `Matcher`, which takes both."""
    return model.task_method == "match"


def require_input(way_out):
    """Raises a `ValueError`, which tells a way out, if there is no standard input."""
    if sys.stdin is None:  # `<&-`
        raise ValueError(f"Standard input is closed. {way_out}")


def lines_of_input():
    """Returns the lines of standard input, without the empty one behind the last line break."""
    require_input("Give texts as arguments, or as its lines.")
    content = sys.stdin.buffer.read()
    refuse_utf16(content, "Standard input")
    lines = content.decode("utf-8-sig", errors="replace")
    texts = lines.replace("\r\n", "\n").split("\n")
    return texts[:-1] if texts[-1] == "" else texts


def files_at(paths, kind):
    """Returns a list of the files at paths: of a folder, those of a kind in it."""
    return [file for path in paths for file in (files_of(path, kind) if path.is_dir() else [path])]


def are_files(files, others, show_attention=None):
    """Returns whether a command should answer a file in another one.

    Raises:
        ValueError: If the options do not go together, or the output exists and is complete: before
            the model is loaded.
    """
    if files == (None, None, None):
        return False
    if files.source is None or files.output is None or others:
        raise ValueError(
            "--input and --output go together, and replace the other inputs; --workers needs both."
        )
    if show_attention is not None:
        raise ValueError("--show-attention is for inputs on the command line, not for --input.")
    require_unanswered(files.output)
    return True


def answer_rows(
    files, model, answer, at_once=ROWS_AT_ONCE, kind=None, names=(TEXT,), options=None, **job
):
    """Answers the rows of a file, or the files of a kind in a folder, in another file.

    Args:
        files: The `Files` of the command.
        model: A model.
        answer: Function of the model, a list of contents, and the number of contents before them,
            that returns a dictionary for each, as for `zoo.files.answer_file`; pickled if there
            are workers.
        at_once: As for `zoo.files.answer_file`.
        kind: Kind of the files in a folder, `"image"` or `"sound"`; `None` if the model reads
            texts.
        names: Names of the texts of a row.
        options: Dictionary of the options that the model was loaded with.
        **job: What else the answers depend on, such as the `name` of the model.
    """
    source, output, where = files
    if source.is_dir() and kind is None:
        raise ValueError(
            f"--input must be a file of texts for {job['name']}. Received a folder: {source}."
        )
    rows = FileFolder(source, kind) if source.is_dir() else TextFile(source, names)
    require_writable(output.absolute().parent)
    answer(model, [], 0)  # which refuses wrong options before the first row does
    options = options or {}
    job = {**job, **options, **_state_of_model(job["name"])}
    job = job if len(names) == 1 else {**job, "texts": names}
    if where is None:
        failed = answer_file(rows, output, functools.partial(answer, model), job, at_once)
    else:
        from zoo.file_workers import OnWorker, workers

        on_worker = OnWorker(
            functools.partial(load, **options), (job["name"], model.task_method), answer
        )
        with workers(where) as run:
            failed = answer_file(rows, output, on_worker, job, at_once, run)
    if failed:
        rows = "1 row" if failed == 1 else f"{failed} rows"
        click.echo(f"{rows} could not be answered: see {output}.errors.", err=True)
        sys.exit(1)


def _state_of_model(name):
    """Returns what tells a preset or a checkpoint from a later one at the same path."""
    if os.path.isdir(name):
        return {"model": state_of(sorted(pathlib.Path(name).iterdir()))}
    return {"model": state_of([pathlib.Path(name)])} if os.path.isfile(name) else {}


def refuse_files(texts):
    """Raises a `ValueError` if the texts on the command line are files of texts."""
    if texts and all(map(os.path.isfile, texts)):
        raise ValueError(
            f"{texts[0]} is a file. For its texts, give --input {texts[0]} and --output."
        )


def pairs_of(texts):
    """Returns texts in pairs."""
    if len(texts) % 2:
        raise ValueError(f"--pair takes an even number of texts. Received: {len(texts)} texts.")
    return list(zip(texts[::2], texts[1::2], strict=True))


def batches(everything, size):
    """Yields lists of `size` consecutive entries, and the rest."""
    for first in range(0, len(everything), size):
        yield list(everything[first : first + size])


def write_answers(inputs, answer, line_of, at_once):
    """Writes a line for each input on the command line, as `answer_rows` does for rows of a file.

    An input that cannot be answered is reported, and its line is empty.

    Args:
        inputs: List of inputs, such as texts, or paths of images.
        answer: Function of a list of inputs that returns an answer for each, no `str`.
        line_of: Function of an answer that returns its line.
        at_once: Number of inputs to answer at a time.

    Returns:
        List of the inputs that were answered.
    """
    answered = []
    for some in batches(inputs, at_once):
        for each, told in zip(some, answers_of(some, lambda some, _: answer(some)), strict=True):
            if isinstance(told, str):
                click.echo()
                click.echo(f"Error: {told}", err=True)
            else:
                click.echo(line_of(told))
                answered.append(each)
        sys.stdout.flush()
    return answered


def contents(files, content_of):
    """Yields pairs of a file and its content; unreadable ones are reported and skipped.

    Args:
        files: List of paths.
        content_of: Function of a path that returns the bytes, or raises an error.
    """
    for file in files:
        try:
            content = content_of(file)
        except (ValueError, OSError) as error:
            report(error)
        else:
            yield file, content


def report(problem):
    """Writes what cannot be read to standard error, as one line."""
    click.echo(f"Error: {' '.join(str(problem).split())}", err=True)
