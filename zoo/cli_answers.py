"""The commands that apply a model to texts or to any input, each named after its task."""

import functools
import itertools
import json
import os
import pathlib
import sys

import click

from zoo.cli_inputs import (
    PAIR_OF_TEXTS,
    answer_rows,
    are_files,
    batches,
    lines_of_input,
    load,
    matches_images_and_texts,
    pairs_of,
    refuse_files,
    write_answers,
)
from zoo.cli_options import (
    PAIR,
    RANDOM,
    RULES,
    SAMPLER,
    SEED,
    batch_size_of,
    decoding_options,
    given,
    name_argument,
    save_plot,
    show_attention_of,
    with_files,
    with_options,
)
from zoo.files import TEXT
from zoo.readers import PICTURES

TEXTS_AT_ONCE = 1024  # texts that are translated and written before the next ones


@click.command()
@name_argument()
@click.argument("texts", nargs=-1)
@with_files("File of texts: .jsonl, .tsv, or one text per line")
@decoding_options
@batch_size_of(64)
@show_attention_of("the alignment of the first text")
@click.option(
    "--source-language", help="Language of the texts, for an M2M100, NLLB or mBART, such as en."
)
@click.option("--target-language", help="Language of the translations, such as de.")
def translate(
    name,
    texts,
    files,
    show_attention,
    batch_size,
    sampler,
    source_language,
    target_language,
    **options,
):
    """Translate TEXTS, or the lines of standard input, with the model NAME.

    Writes one line per text.
    """
    options = given(options)
    languages = {"source_language": source_language, "target_language": target_language}
    languages = given(languages)
    seed = options.pop("seed", 0)
    if are_files(files, texts, show_attention):
        settings = {"sampler": sampler, "batch_size": batch_size, **options}

        def answer(model, texts, before):
            translations = model.translate(texts, seed=seed + before, **settings)
            return [{"translation": each} for each in translations]

        model = load(name, "translate", **languages)
        answer_rows(files, model, answer, options=languages, name=name, seed=seed, **settings)
        return
    refuse_files(texts)
    texts = texts or lines_of_input()
    model = load(name, "translate", **languages)
    for number, some in enumerate(batches(texts, TEXTS_AT_ONCE)):
        asked = {"sampler": sampler, "batch_size": batch_size, "seed": seed + number, **options}
        for translation in model.translate(some, **asked):
            click.echo(" ".join(translation.split("\n")))
        sys.stdout.flush()
    if show_attention and texts:
        result = model.translate([texts[0]], sampler, True, seed=seed, **options)
        save_plot(result, show_attention)


@click.command()
@name_argument()
@click.argument("inputs", nargs=-1)
@with_files("File of texts, .jsonl, .tsv, or one text per line, or folder of images or WAV files")
@PAIR
@click.option(
    "--label", "labels", multiple=True, help="A label for zero-shot classification; repeatable."
)
@click.option(
    "--hypothesis", help="With --label, for texts: the sentence about a label, which is {} in it."
)
@click.option(
    "--multi-label", is_flag=True, help="With --label: texts can have several labels, or none."
)
@batch_size_of(32)
@show_attention_of("the attention for the first input")
def classify(
    name, inputs, files, pair, labels, hypothesis, multi_label, show_attention, batch_size
):
    """Classify INPUTS, which are texts, image files or WAV files, with the model NAME.

    Without INPUTS, they are the lines of standard input. Writes one line per input: the label, a
    tab, and its probability. With --pair, every two texts, such as a premise and a hypothesis, are
    one input. For a multi-label model, the line contains all labels, separated by commas, and their
    probabilities. A model that matches images and texts, or one of textual entailment, takes any
    labels: --label "a dog" --label "a cat". Files that are not images or sounds are reported, with
    an empty line in their place, and the command then exits with status 1.
    """
    is_of_files = are_files(files, inputs, show_attention)
    if not is_of_files:
        inputs = inputs or lines_of_input()
        inputs = pairs_of(inputs) if pair else inputs
    model = load(name, "classify")
    if pair and (labels or model.tokenizer is None):
        raise ValueError(f"{name} does not classify pairs of texts: leave out --pair.")
    kind = _kind_of_files(model)
    folder = next(filter(os.path.isdir, inputs if kind else ()), None)
    if folder is not None:
        raise ValueError(
            f"{folder} is a folder. To classify its {kind}s, write --input {folder} --output FILE."
        )
    asked = given({"hypothesis": hypothesis, "multi_label": multi_label or None})
    settings = {"batch_size": batch_size} | _labels_for(model, name, labels, asked, show_attention)

    def answers(model, inputs):
        result = model.classify(inputs, return_probabilities=True, **settings)
        is_multi = getattr(model, "problem_type", None) == "multi_label_classification"
        if not (multi_label if labels else is_multi):
            shares = [float(each.max()) for each in result.probabilities]
        else:
            shares = [row[row > 0.5].tolist() for row in result.probabilities]
        return list(zip(result.labels, shares, strict=True))

    if labels:
        answers(model, [])  # which refuses wrong options before the first input

    if is_of_files:

        def answer(model, inputs, before):
            names = "label", "probability"
            return [dict(zip(names, each, strict=True)) for each in answers(model, inputs)]

        names = PAIR_OF_TEXTS if pair else (TEXT,)
        answer_rows(files, model, answer, kind=kind, names=names, name=name, **settings)
        return
    if kind is None and not pair:
        refuse_files(inputs)
    answered = write_answers(inputs, functools.partial(answers, model), _told, batch_size)
    if show_attention and answered:
        result = model.classify([answered[0]], return_attention=True)
        save_plot(result, show_attention)
    if len(answered) < len(inputs):
        sys.exit(1)


def _told(answer):
    """Returns a line for a label and its probability, or for lists of them."""
    label, share = answer
    if isinstance(label, str):
        return f"{label}\t{share:.4f}"
    return f"{', '.join(label)}\t{', '.join(f'{each:.4f}' for each in share)}"


def _kind_of_files(model):
    """Returns the kind of the files that a model classifies, or `None` if it classifies texts."""
    if model.takes_images or matches_images_and_texts(model):
        return "image"
    return "sound" if model.tokenizer is None else None


def _labels_for(model, name, labels, asked, show_attention):
    """Returns the options of `classify` for a model that takes any labels.

    Args:
        asked: The options for the labels of texts.
    """
    matches = matches_images_and_texts(model)
    if asked and (matches or not labels):
        raise ValueError("--hypothesis and --multi-label are for texts with --label.")
    if matches and not labels:
        raise ValueError(
            f'{name} needs labels to choose from, such as --label "a dog" --label "a cat".'
        )
    if labels and not matches and model.tokenizer is None:
        raise ValueError(f"{name} has its own labels: leave out --label.")
    if labels and show_attention:
        raise ValueError("--show-attention does not go with --label.")
    return {"labels": list(labels), **asked} if labels else {}


@click.command()
@name_argument()
@click.argument("inputs", nargs=-1)
@with_files("File of texts, .jsonl, .tsv, or one text per line, or folder of images")
@batch_size_of(32)
def embed(name, inputs, files, batch_size):
    """Embed INPUTS, which are texts or image files, with the model NAME.

    Without INPUTS, they are the lines of standard input. Writes one vector per line, as JSON. Files
    that are not images are reported, with an empty line in their place, and the command then exits
    with status 1.
    """
    is_of_files = are_files(files, inputs)
    if not is_of_files:
        inputs = inputs or lines_of_input()
    model = load(name, "embed")
    has_both = matches_images_and_texts(model)
    kind = "image" if model.takes_images or has_both else None

    def vectors(model, are_pictures, inputs):
        if has_both:
            of_kind = {"images" if are_pictures else "texts": inputs}
            found = model.embed(**of_kind, batch_size=batch_size)
        else:
            found = model.embed(inputs, batch_size=batch_size)
        return [[round(float(number), 6) for number in vector] for vector in found]

    if is_of_files:
        are_pictures = files.source.is_dir()

        def answer(model, inputs, before):
            return [{"embedding": each} for each in vectors(model, are_pictures, inputs)]

        answer_rows(files, model, answer, kind=kind, name=name, batch_size=batch_size)
        return
    if kind is None:
        refuse_files(inputs)

    def is_picture(each):
        is_path = pathlib.Path(each).suffix.lower() in PICTURES or os.path.exists(each)
        return has_both and is_path

    failed = False
    for are_pictures, neighbours in itertools.groupby(inputs, is_picture):
        some, embed_them = list(neighbours), functools.partial(vectors, model, are_pictures)
        failed |= len(write_answers(some, embed_them, json.dumps, batch_size)) < len(some)
    if failed:
        sys.exit(1)


@click.command()
@name_argument()
@click.argument("texts", nargs=-1)
@with_files("File of texts: .jsonl, .tsv, or one text per line")
@batch_size_of(32)
def tag(name, texts, files, batch_size):
    """Label each word of TEXTS, or of the lines of standard input, with the model NAME.

    Writes one line per word: the word, a tab, and its label; and an empty line after each text. For
    --input, the answer to each text is the lists of its words, labels and probabilities.
    """
    is_of_files = are_files(files, texts)
    if not is_of_files:
        refuse_files(texts)
        texts = texts or lines_of_input()
    model = load(name, "tag")
    if is_of_files:

        def answer(model, texts, before):
            return [
                {
                    "words": [each.word for each in tags],
                    "labels": [each.label for each in tags],
                    "probabilities": [each.probability for each in tags],
                }
                for tags in model.tag(texts, batch_size)
            ]

        answer_rows(files, model, answer, name=name, batch_size=batch_size)
        return
    for some in batches(texts, batch_size):
        for tags in model.tag(some, batch_size):
            for each in tags:
                click.echo(f"{each.word}\t{each.label}")
            click.echo()
        sys.stdout.flush()


@click.command("fill-mask")
@name_argument()
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
@name_argument()
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
@SEED
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
