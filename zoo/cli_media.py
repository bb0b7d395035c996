"""The commands that apply a model to image and sound files."""

import functools
import inspect
import pathlib
import sys

import click

from zoo.cli_inputs import (
    answer_rows,
    are_files,
    batches,
    contents,
    files_at,
    load,
)
from zoo.cli_options import (
    batch_size_of,
    decoding_options,
    given,
    name_argument,
    require_writable,
    save_plot,
    show_attention_of,
    with_files,
)
from zoo.tasks.subtitles import require_subtitles

_images = click.argument("images", nargs=-1, type=click.Path(path_type=pathlib.Path))
_sounds = click.argument("sounds", nargs=-1, type=click.Path(path_type=pathlib.Path))


@click.command()
@name_argument()
@_images
@with_files("Folder of images")
@decoding_options
@batch_size_of(32)
@show_attention_of("the attention for each word of the first caption")
def caption(name, images, files, show_attention, batch_size, sampler, **options):
    """Caption IMAGES, which are image files or folders of them, with the model NAME.

    Writes one line per image. If there are several, each line begins with the path of the file and
    a tab. Files that are not images are reported and skipped, and the command then exits with
    status 1.
    """
    options = {"sampler": sampler, **options}
    _describe(name, "caption", "image", files, images, show_attention, batch_size, options)


def _check_subtitles(_context, _option, path):
    if path is not None:
        require_subtitles(path)
        require_writable(path.absolute().parent)
    return path


@click.command()
@name_argument()
@_sounds
@with_files("Folder of WAV files")
@click.option("--language", help="Language of the sounds, such as en.  [default: the model's own]")
@click.option("--task", help="transcribe, or translate into English.  [default: the model's own]")
@decoding_options
@batch_size_of(16)
@show_attention_of("the times of the tokens of the first text")
@click.option(
    "--subtitles",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    callback=_check_subtitles,
    help="Save the segments of the text of one sound to FILE, .srt or .vtt.",
)
def transcribe(name, sounds, files, show_attention, subtitles, batch_size, sampler, **options):
    """Transcribe SOUNDS, which are WAV files or folders of them, with the model NAME.

    Writes one line per sound. If there are several, each line begins with the path of the file and
    a tab. Files that are not sounds are reported and skipped, and the command then exits with
    status 1.
    """
    options = {"sampler": sampler, **options}
    if subtitles is not None:
        if files != (None, None, None) or show_attention is not None:
            raise ValueError("--subtitles is for one sound, without --input or --show-attention.")
        _subtitle(name, sounds, subtitles, batch_size, given(options))
        return
    _describe(name, "transcribe", "sound", files, sounds, show_attention, batch_size, options)


def _subtitle(name, sounds, path, batch_size, options):
    """Writes the text of a sound, and a file of subtitles."""
    if len(sounds) != 1 or not sounds[0].is_file():
        told = ", ".join(map(str, sounds))
        raise ValueError(f"--subtitles is for one sound, a WAV file. Received: {told}.")
    model = load(name, "transcribe")
    if "return_timestamps" not in inspect.signature(model.transcribe).parameters:
        raise ValueError(f"{name} has no timestamps, which --subtitles needs.")
    result = model.transcribe(
        str(sounds[0]), batch_size=batch_size, return_timestamps=True, **options
    )
    result.save_subtitles(path)
    click.echo(result.texts[0])
    click.echo(f"Wrote {path}.", err=True)


def _describe(name, method, kind, files, paths, show_attention, batch_size, options):
    """Writes a text for each file, or for each file of a folder into a file.

    Args:
        name: Name of the model.
        method: Method of the model that returns the texts; also the name of answers in a file.
        kind: `"image"` or `"sound"`.
        files: The `Files` of the command.
        paths: Paths to use in place of `files`.
        show_attention: Where to save a plot of the attention, or `None`.
        batch_size: Number of files to process at a time.
        options: Dictionary of options of the method.
    """
    options = given(options)
    if are_files(files, paths, show_attention):
        _describe_folder(name, method, kind, files, batch_size, options)
        return
    if not paths:
        raise ValueError(f"Give {kind}s as arguments, or --input and --output.")
    files = files_at(paths, kind)
    model = load(name, method)
    describe = getattr(model, method)
    _require_options(name, describe, options)
    is_one, failed, first = [*files] == [*paths] and len(files) == 1, False, None
    content_of = _content_of(kind, getattr(model, "longest_sound", None))
    for some in batches(files, batch_size):
        found = list(contents(some, content_of))
        failed = failed or len(found) < len(some)
        texts = describe([content for _, content in found], **options) if found else []
        for (file, _), text in zip(found, texts, strict=True):
            click.echo(text if is_one else f"{click.format_filename(file)}\t{text}")
        sys.stdout.flush()
        first = first or next((file for file, _ in found), None)
    if show_attention and first:
        result = describe([first], return_attention=True, **options)
        save_plot(result, show_attention)
    if failed:
        sys.exit(1)


def _describe_folder(name, method, kind, files, batch_size, options):
    """Writes a text for each file of a folder into a file; arguments as for `_describe`."""
    model = load(name, method)
    first_seed = options.pop("seed", 0)
    _require_options(name, getattr(model, method), options)
    answer_name = {"caption": "caption", "transcribe": "text"}[method]

    def answer(model, some, before):
        seed = {"seed": first_seed + before} if hasattr(model, "sampler") else {}
        texts = getattr(model, method)(some, **seed, **options)
        return [{answer_name: each} for each in texts]

    job = {"name": name, "seed": first_seed, **options}
    answer_rows(files, model, answer, batch_size, kind, **job)


def _require_options(name, method, options):
    """Raises a `click.ClickException` for an option that the method of a model lacks."""
    parameters = inspect.signature(method).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    for option in options.keys() - parameters.keys():
        raise click.ClickException(f"{name} has no option {option}: leave it out.")


def _content_of(kind, seconds=None):
    """Returns the function that reads a file of a kind, or raises an error.

    Args:
        kind: `"image"` or `"sound"`.
        seconds: Maximum length of a sound, or `None`.
    """
    if kind == "image":
        from zoo.readers.images import image_bytes

        return image_bytes
    from zoo.readers.audio import sound_bytes

    return functools.partial(sound_bytes, seconds=seconds)


COMMANDS = (caption, transcribe)
