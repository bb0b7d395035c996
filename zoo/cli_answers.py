"""The commands that use a model, each for the task of its name."""

import itertools
import json
import pathlib
import sys

import click

import zoo
from zoo import quiet
from zoo.cli_options import (
    PAIR,
    RANDOM,
    RULES,
    SAMPLER,
    decoding_options,
    require_writable,
    show_attention_in,
    with_files,
    with_options,
)
from zoo.files import TEXT, PictureFolder, TextFile, answer_file
from zoo.readers import PICTURES, pictures_of

TEXTS_AT_ONCE = 1024  # that are translated before the next ones, and written
PAIR_OF_TEXTS = TEXT, "text_pair"  # as an exported classifier calls them
ROWS_AT_ONCE = 256  # of a file, that are lost at most when the process is killed


def _load(name, method):
    """Loads a model that has a method."""
    quiet.import_tensorflow()
    model = zoo.load(name)
    if not hasattr(model, method):
        task = model.task_name
        raise ValueError(f"{name} is for another task ({task}): it has no `{method}`.")
    return model


def _are_files(source, output, others, show_attention=None):
    """Returns whether a command is to answer a file in another one."""
    if source is None and output is None:
        return False
    if source is None or output is None or others:
        raise ValueError("--input and --output go together, and take the place of arguments.")
    if show_attention is not None:
        raise ValueError("--show-attention is for inputs among the arguments, not for --input.")
    return True


def _answer_file(source, output, answer, at_once=ROWS_AT_ONCE, names=(TEXT,), **job):
    rows = PictureFolder(source) if source.is_dir() else TextFile(source, names)
    require_writable(output.absolute().parent)
    failed = answer_file(rows, output, answer, job, at_once)
    if failed:
        click.echo(f"{failed} rows could not be answered: see {output}.errors.", err=True)
        sys.exit(1)


@click.command()
@click.argument("name")
@click.argument("texts", nargs=-1)
@with_files("File of texts: .jsonl, .tsv or lines")
@decoding_options
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True)
@show_attention_in("Draw the alignment of the first text into this picture.")
def translate(name, texts, source, output, show_attention, batch_size, sampler, **options):
    """Translate TEXTS, or the lines of standard input, with the model NAME.

    Writes one line for each text.
    """
    options = {key: value for key, value in options.items() if value is not None}
    if _are_files(source, output, texts, show_attention):
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


@click.command()
@click.argument("name")
@click.argument("images", nargs=-1, type=click.Path(path_type=pathlib.Path))
@with_files("Folder of pictures")
@decoding_options
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@show_attention_in("Draw into this picture where each word of the first caption looked.")
def caption(name, images, source, output, show_attention, batch_size, sampler, **options):
    """Describe the picture files IMAGES, or those in folders, with the model NAME.

    Writes a line for each; of several it begins with the file's name and a tab. What is no picture
    is told, and left out; the command then ends with status 1.
    """
    options = {key: value for key, value in options.items() if value is not None}
    if _are_files(source, output, images, show_attention):
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


@click.command()
@click.argument("name")
@click.argument("inputs", nargs=-1)
@with_files("File of texts, .jsonl, .tsv or lines, or folder of pictures")
@PAIR
@click.option("--label", "labels", multiple=True, help="A label; may be given several times.")
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@show_attention_in("Draw into this picture what the model looked at in the first input.")
def classify(name, inputs, source, output, pair, labels, show_attention, batch_size):
    """Name the best label of each of INPUTS, texts, pictures or WAV files, with the model NAME.
    With --pair of each two texts together: "It rains." "The sun shines."

    Writes a line for each: the label, a tab, and its probability. Of a model of several labels an
    input, the line is all of them, with a comma between, and their probabilities. A model that
    matches pictures and texts takes any labels: --label "a dog" --label "a cat".
    """
    is_of_files = _are_files(source, output, inputs, show_attention)
    if not is_of_files:
        _require_arguments(inputs, "texts, pictures or sounds")
        inputs = _pairs_of(inputs) if pair else inputs
    model = _load(name, "classify")
    if pair and model.tokenizer is None or pair and labels:
        raise ValueError(f"{name} classifies no pairs of texts: leave out --pair.")
    settings = {"batch_size": batch_size} | _labels_for(model, name, labels, show_attention)

    def answers(inputs):
        result = model.classify(inputs, return_probabilities=True, **settings)
        if getattr(model, "problem_type", None) != "multi_label_classification":
            shares = [f"{each.max():.4f}" for each in result.probabilities]
            return list(zip(result.labels, shares, strict=True))
        kept = [row[row > 0.5] for row in result.probabilities]
        shares = [", ".join(f"{each:.4f}" for each in row) for row in kept]
        return list(zip(map(", ".join, result.labels), shares, strict=True))

    if is_of_files:

        def answer(inputs, before):
            return [dict(zip(("label", "probability"), x, strict=True)) for x in answers(inputs)]

        names = PAIR_OF_TEXTS if pair else (TEXT,)
        _answer_file(source, output, answer, names=names, name=name, **settings)
        return
    for some in _batches(inputs, batch_size):
        for each in answers(some):
            click.echo("\t".join(each))
        sys.stdout.flush()
    if show_attention:
        result = model.classify([inputs[0]], return_attention=True)
        result.plot(0).savefig(show_attention, bbox_inches="tight", dpi=150)
        click.echo(f"Wrote {show_attention}.", err=True)


def _labels_for(model, name, labels, show_attention):
    """Returns the option of `classify` that a model needs which takes any labels."""
    if not hasattr(model, "search"):
        if labels:
            raise ValueError(f"{name} has labels of its own: leave out --label.")
        return {}
    if not labels or show_attention:
        raise ValueError(
            f'{name} needs labels to choose from, --label "a dog" --label "a cat", and has no '
            "attention to show."
        )
    return {"labels": list(labels)}


def _pairs_of(texts):
    """Returns texts two by two."""
    if len(texts) % 2:
        raise ValueError(f"--pair takes texts two by two. Received: {len(texts)} texts.")
    return list(zip(texts[::2], texts[1::2], strict=True))


@click.command()
@click.argument("name")
@click.argument("texts", nargs=-1)
@with_files("File of texts: .jsonl, .tsv or lines")
@PAIR
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
def score(name, texts, source, output, pair, batch_size):
    """Give each of TEXTS its number, with the model NAME, such as a cross-encoder or a regression.
    With --pair to each two texts together: a question and a passage.

    Writes a line for each.
    """
    is_of_files = _are_files(source, output, texts)
    if not is_of_files:
        _require_arguments(texts, "texts")
        texts = _pairs_of(texts) if pair else texts
    model = _load(name, "score")
    if model.task_method != "score":
        raise ValueError(f"{name} is for another task ({model.task_name}).")
    if is_of_files:

        def answer(texts, before):
            return [{"score": f"{each:.6g}"} for each in model.score(texts, batch_size)]

        names = PAIR_OF_TEXTS if pair else (TEXT,)
        _answer_file(source, output, answer, names=names, name=name, batch_size=batch_size)
        return
    for some in _batches(texts, batch_size):
        for each in model.score(some, batch_size):
            click.echo(f"{each:.6g}")
        sys.stdout.flush()


@click.command()
@click.argument("name")
@click.argument("question", required=False)
@click.argument("context", required=False)
@with_files("File of questions and contexts: .jsonl or .tsv")
@click.option("--batch-size", type=click.IntRange(min=1), default=8, show_default=True)
def answer(name, question, context, source, output, batch_size):
    """Find what answers QUESTION in CONTEXT, with the model NAME.

    Writes the answer, a tab, and its probability. A file has a question and a context in each line.
    """
    is_of_files = _are_files(source, output, question)
    if not is_of_files and context is None:
        raise ValueError("Give a question and a context, or --input and --output.")
    model = _load(name, "answer")

    def answers(pairs):
        found = model.answer(*zip(*pairs, strict=True), batch_size)
        return [(each.text, f"{each.score:.4f}") for each in found]

    if is_of_files:

        def answer_rows(pairs, before):
            names = "answer", "score"
            return [dict(zip(names, each, strict=True)) for each in answers(pairs)]

        names = "question", "context"
        _answer_file(source, output, answer_rows, names=names, name=name, batch_size=batch_size)
        return
    ((text, probability),) = answers([(question, context)])
    click.echo("\t".join([" ".join(text.split()), probability]))


def _require_arguments(arguments, what):
    if not arguments:
        raise ValueError(f"Name {what}, or give --input and --output.")


@click.command()
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


@click.command()
@click.argument("name")
@click.argument("inputs", nargs=-1, required=True)
def embed(name, inputs):
    """Write a line for each of INPUTS, texts or picture files: its vector by NAME, as JSON."""
    model = _load(name, "embed")

    def is_picture(each):
        return hasattr(model, "search") and pathlib.Path(each).suffix.lower() in PICTURES

    for of_pictures, neighbours in itertools.groupby(inputs, is_picture):
        kind = "images" if of_pictures else "texts"
        for vector in model.embed(**{kind: list(neighbours)}):
            click.echo(json.dumps([round(float(number), 6) for number in vector]))


@click.command()
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


@click.command("fill-mask")
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


@click.command()
@click.argument("name")
@click.argument("text", default="")
@with_files("File of prompts: .jsonl, .tsv or lines")
@click.option("--max-length", type=int, default=500, show_default=True, help="Tokens to add.")
@with_options([SAMPLER, *RANDOM])
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of a random sampler.")
@with_options(RULES)
@click.option("--stop", multiple=True, help="Where to stop; may be given several times.")
def generate(name, text, source, output, max_length, sampler, seed, stop, **options):
    """Let the language model NAME go on with TEXT, written as it is generated.

    Or let a model of text to text answer it, such as "summarize: ..." by T5.
    """
    options = {key: value for key, value in options.items() if value is not None}
    is_of_files = _are_files(source, output, text)
    model = _load(name, "generate")
    arguments = {"max_length": max_length, "sampler": sampler, "seed": seed}
    can_stream = hasattr(model, "stream")
    if can_stream:
        arguments["stop"] = stop
    elif stop:
        raise ValueError(f"{name} answers texts whole: leave out --stop.")
    if is_of_files:
        settings = {**arguments, **options}

        def answer(texts, before):
            asked = {**settings, "seed": seed + before}
            return [{"continuation": each} for each in model.generate(texts, **asked)]

        _answer_file(source, output, answer, name=name, **settings)
        return
    if not can_stream or model.sampler(sampler, **options).num_beams > 1:
        pieces = [model.generate(text, **arguments, **options)]
    else:
        pieces = model.stream(text, **arguments, **options)
    if can_stream:
        click.echo(text, nl=False)
    for piece in pieces:
        click.echo(piece, nl=False)
        sys.stdout.flush()
    click.echo()


COMMANDS = translate, caption, classify, score, answer, match, embed, tag, fill_mask, generate
