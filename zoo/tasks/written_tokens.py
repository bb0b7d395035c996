"""The tokens that a language model generates, with their most probable alternatives."""

from typing import NamedTuple

import numpy as np


class WrittenToken(NamedTuple):
    """A token that follows a prompt, as yielded by `stream_tokens`.

    Attributes:
        text: The piece of text; special tokens are in angle brackets, and bytes that are not whole
            characters are written as `bytes:\\xc3`.
        content: The `bytes` that it adds to the text; empty for an end token.
        is_end: Whether it ends the text.
        log_prob: Its log-probability under the model, before the sampler modifies it.
        likely: Dictionary from the most probable tokens at its position to their log-probabilities,
            best first.
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
        token: Id of the token.
        log_probs: float32 tensor `(vocabulary,)`, the log-probabilities of all tokens at its
            position.
        end_ids: Ids of the tokens that end a text.
        top: Number of most probable tokens to return.
    """
    log_probs, is_end = log_probs.numpy(), token in end_ids
    likely = np.argsort(-log_probs, kind="stable")[:top].tolist() if top else []
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
