"""The commands that apply a model to texts or to any input, each named after its task."""

import itertools
import json
import pathlib
import sys

import click

from zoo.cli_inputs import (
    PAIR_OF_TEXTS,
    answer_rows,
    are_files,
    batches,
    load,
    pairs_of,
    refuse_files,
    require_arguments,
)
from zoo.cli_options import (
    PAIR,
    RANDOM,
    RULES,
    SAMPLER,
    batch_size_of,
    decoding_options,
    given,
    save_plot,
    show_attention_of,
    with_files,
    with_options,
)
from zoo.files import TEXT, refuse_utf16
from zoo.readers import PICTURES

TEXTS_AT_ONCE = 1024  # texts that are translated and written before the next ones


@click.command()
@click.argument("name")
@click.argument("texts", nargs=-1)
@with_files("File of texts: .jsonl, .tsv, or one text per line")
@decoding_options
@batch_size_of(64)
@show_attention_of("the alignment of the first text")
def translate(name, texts, files, show_attention, batch_size, sampler, **options):
    """Translate TEXTS, or the lines of standard input, with the model NAME.

    Writes one line per text.
    """
    options = given(options)
    seed = options.pop("seed", 0)
    if are_files(files, texts, show_attention):
        settings = {"sampler": sampler, "batch_size": batch_size, **options}

        def answer(model, texts, before):
            translations = model.translate(texts, seed=seed + before, **settings)
            return [{"translation": each} for each in translations]

        model = load(name, "translate")
        answer_rows(files, model, answer, name=name, seed=seed, **settings)
        return
    refuse_files(texts)
    texts = texts or _lines_of_input()
    model = load(name, "translate")
    for number, some in enumerate(batches(texts, TEXTS_AT_ONCE)):
        asked = {"sampler": sampler, "batch_size": batch_size, "seed": seed + number, **options}
        for translation in model.translate(some, **asked):
            click.echo(" ".join(translation.split("\n")))
        sys.stdout.flush()
    if show_attention and texts:
        result = model.translate([texts[0]], sampler, True, seed=seed, **options)
        save_plot(result, show_attention)


def _lines_of_input():
    """Returns the lines of standard input, without the empty one behind the last line break."""
    content = sys.stdin.buffer.read()
    refuse_utf16(content, "Standard input")
    lines = content.decode("utf-8-sig", errors="replace")
    texts = lines.replace("\r\n", "\n").split("\n")
    return texts[:-1] if texts[-1] == "" else texts


@click.command()
@click.argument("name")
@click.argument("inputs", nargs=-1)
@with_files("File of texts, .jsonl, .tsv, or one text per line, or folder of images or WAV files")
@PAIR
@click.option(
    "--label", "labels", multiple=True, help="A label for zero-shot classification; repeatable."
)
@batch_size_of(32)
@show_attention_of("the attention for the first input")
def classify(name, inputs, files, pair, labels, show_attention, batch_size):
    """Classify INPUTS, which are texts, image files or WAV files, with the model NAME.

    Writes one line per input: the label, a tab, and its probability. With --pair, every two texts,
    such as a premise and a hypothesis, are one input. For a multi-label model, the line contains
    all labels, separated by commas, and their probabilities. A model that matches images and texts
    takes any labels: --label "a dog" --label "a cat".
    """
    is_of_files = are_files(files, inputs, show_attention)
    if not is_of_files:
        require_arguments(inputs, "texts, images or sounds")
        inputs = pairs_of(inputs) if pair else inputs
    model = load(name, "classify")
    if pair and (labels or model.tokenizer is None):
        raise ValueError(f"{name} does not classify pairs of texts: leave out --pair.")
    kind = _kind_of_files(model)
    folder = next((each for each in inputs if kind and pathlib.Path(each).is_dir()), None)
    if folder is not None:
        raise ValueError(
            f"{folder} is a folder. To classify its {kind}s, write --input {folder} --output FILE."
        )
    settings = {"batch_size": batch_size} | _labels_for(model, name, labels, show_attention)

    def answers(model, inputs):
        result = model.classify(inputs, return_probabilities=True, **settings)
        if getattr(model, "problem_type", None) != "multi_label_classification":
            shares = [float(each.max()) for each in result.probabilities]
        else:
            shares = [row[row > 0.5].tolist() for row in result.probabilities]
        return list(zip(result.labels, shares, strict=True))

    if is_of_files:

        def answer(model, inputs, before):
            names = "label", "probability"
            return [dict(zip(names, each, strict=True)) for each in answers(model, inputs)]

        names = PAIR_OF_TEXTS if pair else (TEXT,)
        answer_rows(files, model, answer, kind=kind, names=names, name=name, **settings)
        return
    for some in batches(inputs, batch_size):
        for each in answers(model, some):
            click.echo(_told(*each))
        sys.stdout.flush()
    if show_attention:
        result = model.classify([inputs[0]], return_attention=True)
        save_plot(result, show_attention)


def _told(label, share):
    """Returns a line for one label and its probability, or for lists of them."""
    if isinstance(label, str):
        return f"{label}\t{share:.4f}"
    return f"{', '.join(label)}\t{', '.join(f'{each:.4f}' for each in share)}"


def _kind_of_files(model):
    """Returns the kind of the files that a model classifies, or `None` if it classifies texts."""
    if model.takes_images or hasattr(model, "search"):
        return "image"
    return "sound" if model.tokenizer is None else None


def _labels_for(model, name, labels, show_attention):
    """Returns the option of `classify` for a model that takes any labels."""
    if not hasattr(model, "search"):
        if labels:
            raise ValueError(f"{name} has its own labels: leave out --label.")
        return {}
    if not labels or show_attention:
        raise ValueError(
            f'{name} needs labels to choose from, such as --label "a dog" --label "a cat", and '
            "does not support --show-attention."
        )
    return {"labels": list(labels)}


@click.command()
@click.argument("name")
@click.argument("inputs", nargs=-1, required=True)
def embed(name, inputs):
    """Embed INPUTS, which are texts or image files, with the model NAME.

    Writes one vector per line, as JSON.
    """
    model = load(name, "embed")

    def is_picture(each):
        path = pathlib.Path(each)
        return hasattr(model, "search") and (path.suffix.lower() in PICTURES or path.exists())

    for of_pictures, neighbours in itertools.groupby(inputs, is_picture):
        kind = "images" if of_pictures else "texts"
        for vector in model.embed(**{kind: list(neighbours)}):
            click.echo(json.dumps([round(float(number), 6) for number in vector]))


@click.command()
@click.argument("name")
@click.argument("texts", nargs=-1, required=True)
def tag(name, texts):
    """Label each word of TEXTS with the model NAME.

    Writes one line per word: the word, a tab, and its label; and an empty line after each text.
    """
    model = load(name, "tag")
    for tags in model.tag(list(texts)):
        for each in tags:
            click.echo(f"{each.word}\t{each.label}")
        click.echo()


@click.command("fill-mask")
@click.argument("name")
@click.argument("text")
@click.option(
    "-k",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Number of candidates.",
)
def fill_mask(name, text, k):
    """Fill the mask in TEXT with the model NAME.

    Writes one line per candidate, best first: its probability, a tab, and the whole text. If there
    are several masks, each is filled independently.
    """
    model = load(name, "fill_mask")
    found = model.fill_mask(text, num_candidates=k)
    of_masks = [found] if text.count(model.mask) == 1 else found
    for candidates in of_masks:
        for each in candidates:
            click.echo(f"{each.probability:.4f}\t{each.text}")


@click.command()
@click.argument("name")
@click.argument("text", default="")
@with_files("File of prompts: .jsonl, .tsv, or one prompt per line")
@click.option(
    "--max-length",
    type=int,
    default=500,
    show_default=True,
    help="Maximum number of tokens to add.",
)
@with_options([SAMPLER, *RANDOM])
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of a random sampler.")
@with_options(RULES)
@click.option("--stop", multiple=True, help="Text to stop at; repeatable.")
def generate(name, text, files, max_length, sampler, seed, stop, **options):
    """Continue TEXT with the language model NAME, and write the result as it is generated.

    With a text-to-text model such as T5, answer TEXT, such as "summarize: ...".
    """
    options = given(options)
    is_of_files = are_files(files, text)
    refuse_files([text])
    model = load(name, "generate")
    arguments = {"max_length": max_length, "sampler": sampler, "seed": seed}
    can_stream = hasattr(model, "stream")
    if can_stream:
        arguments["stop"] = stop
    elif stop:
        raise ValueError(f"{name} does not support stop texts: leave out --stop.")
    if is_of_files:
        settings = {**arguments, **options}

        def answer(model, texts, before):
            asked = {**settings, "seed": seed + before}
            return [{"continuation": each} for each in model.generate(texts, **asked)]

        answer_rows(files, model, answer, name=name, **settings)
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


COMMANDS = (translate, classify, embed, tag, fill_mask, generate)
