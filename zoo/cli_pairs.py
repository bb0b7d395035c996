"""The commands of models that read pairs of texts, such as a question and a passage."""

import sys

import click

from zoo.cli_inputs import (
    PAIR_OF_TEXTS,
    answer_rows,
    are_files,
    batches,
    lines_of_input,
    load,
    pairs_of,
    refuse_files,
)
from zoo.cli_options import PAIR, batch_size_of, name_argument, with_files
from zoo.files import TEXT


@click.command()
@name_argument()
@click.argument("texts", nargs=-1)
@with_files("File of texts: .jsonl, .tsv, or one text per line")
@PAIR
@batch_size_of(32)
def score(name, texts, files, pair, batch_size):
    """Score TEXTS, or the lines of standard input, with the model NAME.

    It is, for example, a cross-encoder or a regression model. Writes one score per line. With
    --pair, every two texts, such as a question and a passage, get one score.
    """
    is_of_files = are_files(files, texts)
    if not is_of_files:
        refuse_files(texts)
        texts = texts or lines_of_input()
        texts = pairs_of(texts) if pair else texts
    model = load(name, "score")
    if model.task_method != "score":
        raise ValueError(
            f"{name} is for another task ({model.task_name}). Compute the perplexity of texts in "
            f"Python: zoo.load({name!r}).score(texts).perplexity."
        )
    if is_of_files:

        def answer(model, texts, before):
            return [{"score": float(each)} for each in model.score(texts, batch_size)]

        names = PAIR_OF_TEXTS if pair else (TEXT,)
        answer_rows(files, model, answer, names=names, name=name, batch_size=batch_size)
        return
    for some in batches(texts, batch_size):
        for each in model.score(some, batch_size):
            click.echo(f"{each:.6g}")
        sys.stdout.flush()


@click.command()
@name_argument()
@click.argument("question", required=False)
@click.argument("context", required=False)
@with_files("File of questions and contexts: .jsonl or .tsv")
@batch_size_of(8)
def answer(name, question, context, files, batch_size):
    """Find the answer to QUESTION in CONTEXT with the model NAME.

    Writes the answer, a tab, and its probability. For --input, each line of the file contains a
    question and a context.
    """
    is_of_files = are_files(files, question)
    if not is_of_files and context is None:
        raise ValueError("Give a question and a context, or --input and --output.")
    model = load(name, "answer")

    def answers(model, pairs):
        questions, contexts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        found = model.answer(questions, contexts, batch_size)
        return [(each.text, float(each.score)) for each in found]

    if is_of_files:

        def answer_pairs(model, pairs, before):
            names = "answer", "score"
            return [dict(zip(names, each, strict=True)) for each in answers(model, pairs)]

        names = "question", "context"
        answer_rows(files, model, answer_pairs, names=names, name=name, batch_size=batch_size)
        return
    ((text, probability),) = answers(model, [(question, context)])
    click.echo(f"{' '.join(text.split())}\t{probability:.4f}")


COMMANDS = (score, answer)
