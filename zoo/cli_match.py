"""The command that searches images or texts."""

import pathlib
import sys

import click

from zoo.cli_inputs import (
    contents,
    files_at,
    lines_of_input,
    load,
    matches_images_and_texts,
    report,
)
from zoo.cli_options import name_argument
from zoo.files import TextFile


@click.command()
@name_argument()
@click.argument("query")
@click.argument("files", nargs=-1, type=click.Path(path_type=pathlib.Path))
@click.option(
    "-k", type=click.IntRange(min=1), default=5, show_default=True, help="Maximum number of lines."
)
def match(name, query, files, k):
    """Find what matches QUERY best in FILES, with the model NAME.

    A model of images searches image files and folders of them; QUERY is the path of an image, or a
    text if the model matches images and texts. A model of texts searches the texts of files, which
    are .jsonl, .tsv, or one text per line, or the lines of standard input; empty lines are left
    out.

    Writes one line per image or text, best first: the similarity, a tab, and the path of the file
    or the text. What cannot be read is reported and skipped, and the command then exits with status
    1.
    """
    model = load(name, "search")
    takes_both = matches_images_and_texts(model)
    search = _search_images if takes_both or model.takes_images else _search_texts
    if takes_both:
        from zoo.tasks.searching import is_path_of_picture

        query = pathlib.Path(query) if is_path_of_picture(query) else query
    found, is_complete = search(model, query, files, k)
    for similarity, entry in found:
        click.echo(f"{similarity:.4f}\t{entry}")
    if not is_complete:
        sys.exit(1)


def _search_images(model, query, paths, k):
    """Returns pairs of a similarity and a path, and whether all images could be read."""
    from zoo.readers.images import image_bytes

    if not paths:
        raise ValueError("Give image files, or folders of them, after the query.")
    files, readable = files_at(paths, "image"), []

    def images():
        for file, content in contents(files, image_bytes):
            readable.append(file)
            yield content
        if not readable:
            raise ValueError("None of the files can be read.")

    found = model.search(query, images(), k)
    names = [click.format_filename(readable[place]) for place in found.names]
    return zip(found.similarities, names, strict=True), len(readable) == len(files)


def _search_texts(model, query, paths, k):
    """Returns pairs of a similarity and a text in one line, and whether all could be read."""
    texts, is_complete = [] if paths else lines_of_input(), True
    for path in paths:
        if not path.is_file():
            raise ValueError(
                f"{path} is not a file. Give files of texts after the query, or texts as lines of "
                "standard input."
            )
        for number, row in enumerate(TextFile(path).rows(0), start=1):
            if row.problem is None:
                texts.append(row.content)
            else:
                report(f"{path}, line {number}: {row.problem}")
                is_complete = False
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise ValueError(
            "There are no texts to search. Give files of texts after the query, or texts as lines "
            "of standard input."
        )
    found = model.search(query, texts, k)
    lines = [" ".join(text.split()) for text in found.entries]
    return zip(found.similarities, lines, strict=True), is_complete
