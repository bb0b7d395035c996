"""Added tokens, such as `[MASK]`, which are found in texts verbatim, before anything else."""

import re

import tensorflow as tf

from zoo.readers.text.normalizers import SPACE
from zoo.readers.text.tables import static_table

_END = b"\xff"  # occurs in no valid UTF-8


class AddedTokens(tf.Module):
    """Separates added tokens from the text around them.

    Args:
        tokens: Entries of `added_tokens` in `tokenizer.json`, at least one.

    Raises:
        ValueError: If a token matches whole words only, or one token is a prefix of another that
            treats white space differently.
    """

    def __init__(self, tokens):
        super().__init__()
        groups = {}  # by whether white space before and behind belongs to the token
        for token in tokens:
            if token.get("single_word"):
                raise ValueError(
                    f"the added token {token['content']!r} with single_word is not implemented."
                )
            group = bool(token.get("lstrip")), bool(token.get("rstrip"))
            groups.setdefault(group, []).append(token["content"])
        _require_different_beginnings(groups)
        alternatives = []
        for (left, right), contents in groups.items():
            names = "|".join(map(re.escape, sorted(contents, key=len, reverse=True)))
            white_space = f"[{SPACE}]*"
            alternatives.append(white_space * left + f"({names})" + white_space * right)
        self._pattern = "|".join(alternatives)
        found = b"".join(rb"\%d" % number for number in range(1, len(groups) + 1))
        self._rewrite = _END + found + _END
        contents = [token["content"] for token in tokens]
        with tf.init_scope(), tf.device("CPU"):
            self._ids = static_table(contents, [token["id"] for token in tokens], default=-1)

    def __call__(self, texts):
        """Splits texts at tokens.

        Args:
            texts: Strings `[texts]`.

        Returns:
            Parts of texts, alternately a text, which may be empty, and a token: strings without the
            tokens, `[parts]`; the ids of the tokens, -1 for a text; row splits.
        """
        marked = tf.strings.regex_replace(texts, self._pattern, self._rewrite)
        parts = tf.strings.split(marked, sep=_END)
        starts = tf.gather(parts.row_splits, parts.value_rowids())
        is_token = (tf.range(tf.size(parts.values, tf.int64)) - starts) % 2 == 1
        ids = tf.where(is_token, self._ids.lookup(parts.values), -1)
        return tf.where(is_token, "", parts.values), ids, parts.row_splits


def _require_different_beginnings(groups):
    for group, contents in groups.items():
        for other_group, others in groups.items():
            for content in contents if group != other_group else ():
                if any(other.startswith(content) for other in others):
                    raise ValueError(
                        f"the added token {content!r} begins another one that treats white space "
                        "differently, which is not implemented."
                    )
