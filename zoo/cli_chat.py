"""The command that talks to a language model."""

import codecs
import sys

import click

from zoo.cli_inputs import load, require_input
from zoo.cli_options import RANDOM, RULES, SAMPLER, SEED, given, name_argument, with_options


@click.command()
@name_argument()
@click.option("--system", help="Instructions before the conversation.")
@click.option(
    "--max-length",
    type=int,
    default=500,
    show_default=True,
    help="Maximum number of tokens of an answer.",
)
@with_options([SAMPLER, *RANDOM])
@SEED
@with_options(RULES)
def chat(name, system, max_length, sampler, seed, **options):
    """Talk to the language model NAME, which must have a chat template.

    Reads messages, one per line, and writes each answer as it is generated. Ctrl-D, or the end of
    the input, ends the conversation.
    """
    require_input("Messages are its lines.")
    model = load(name, "stream")
    if model.settings["chat"] is None:
        raise ValueError(f"{name} has no chat template. Use `generate` to continue a text.")
    model.sampler(sampler, **given(options))  # which refuses wrong options before the first line
    messages = [] if system is None else [{"role": "system", "content": system}]
    for number, text in enumerate(_lines()):
        messages.append({"role": "user", "content": text})
        answer = ""
        for piece in model.stream(messages, max_length, sampler, seed + number, **given(options)):
            click.echo(piece, nl=False)
            sys.stdout.flush()
            answer += piece
        click.echo()
        messages.append({"role": "assistant", "content": answer.strip()})


def _lines():
    """Yields the lines of the input that are not blank; asks for them if it is a terminal."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")  # as for texts of other commands
    while True:
        if sys.stdin.isatty():
            click.echo("> ", nl=False, err=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        text = decoder.decode(line).strip()
        if text:
            yield text
