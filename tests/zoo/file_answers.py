"""Answers to rows of files, without Keras, whose import would cost each worker seconds."""

import os
import pathlib
import signal

KILLED_AT = 40


def upper(texts, before):
    if "poison" in texts:
        raise ValueError("it is\npoison")
    return [{"answer": text.upper(), "length": len(text)} for text in texts]


def upper_or_die(model, texts, before):
    """Answers as `upper`, but kills the first worker that reaches row `KILLED_AT`."""
    mark = pathlib.Path(model)
    if before == KILLED_AT and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return upper(texts, before)
