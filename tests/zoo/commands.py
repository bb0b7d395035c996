"""Commands of the command line, run in this process."""

import click.testing

from zoo.cli import main


def run(*arguments, **options):
    """Returns the result of a command, with its exit code and its output."""
    return click.testing.CliRunner().invoke(main, [str(each) for each in arguments], **options)
