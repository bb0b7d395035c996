"""What a language model writes, token by token, and what could stand there."""

from typing import NamedTuple

import numpy as np


class WrittenToken(NamedTuple):
    """What `stream_tokens` yields, a token that follows a prompt.

    Attributes:
        text: The piece of text; that of a special token in angle brackets, and bytes that are no
            characters of their own as `bytes:\\xc3`.
        content: `bytes` that it adds to the text, none of an end token.
        is_end: Whether it ends the text.
        log_prob: Its log-probability by the model, whatever the sampler made of it.
        likely: Dictionary of the most probable tokens at its place, the first one first, to their
            log-probabilities.
    """

    text: str
    content: bytes
    is_end: bool
    log_prob: float
    likely: dict[str, float]


def written_token(tokenizer, token, log_probs, end_ids, top):
    """Returns a `WrittenToken`.

    Args:
        tokenizer: The tokenizer.
        token: Id of what was written.
        log_probs: Float32 tensor `(vocabulary,)`, those of every token at its place.
        end_ids: Ids of the tokens that end a text.
        top: How many of the most probable tokens are told.
    """
    log_probs, is_end = log_probs.numpy(), token in end_ids
    likely = np.argsort(-log_probs, kind="stable")[:top].tolist()
    return WrittenToken(
        text=_spelled(tokenizer, token),
        content=b"" if is_end else tokenizer.piece_bytes(token),
        is_end=is_end,
        log_prob=float(log_probs[token]),
        likely={
            _spelled(tokenizer, each): float(log_probs[each])
            for each in likely
            if np.isfinite(log_probs[each])
        },
    )


def _spelled(tokenizer, token):
    """Returns a token as OpenAI's protocol spells it."""
    content = tokenizer.piece_bytes(token)
    if not content:  # a special token
        return tokenizer.pieces([[token]])[0][0]
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in content)
