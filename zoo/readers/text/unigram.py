"""Unigram: of all ways to split a text into known pieces, the most probable one."""

import numpy as np
import tensorflow as tf

from zoo.readers.text.tables import KnownWords, constant, row_ids
from zoo.readers.text.trie import Trie, visited, with_separators

_PENALTY = 10.0  # of an unknown character, below the least probable piece
_KNOWN_WORDS = 30000  # pieces are sorted by probability
_SPACE = "▁"


class Unigram(tf.Module):
    """Finds the most probable pieces by the Viterbi algorithm.

    Reference: Kudo 2018, "Subword Regularization".

    Args:
        pieces: List of `(piece, score)`, the score being its log-probability.
        unknown_id: Number of the piece for unknown characters.
        byte_fallback: Whether unknown characters become the pieces of their bytes, `<0x..>`.
        is_sentencepiece: Whether scores are summed as by SentencePiece, in single precision over
            the whole text, not as by `tokenizers`, in double precision for each word. It decides
            between ways that are equally probable.
        hidden: Numbers of pieces that no text is split into, such as `<s>` and `<0x41>`.
        user_defined: Numbers of pieces that are always taken.

    Raises:
        ValueError: If byte pieces are missing.
    """

    def __init__(
        self, pieces, unknown_id, byte_fallback, is_sentencepiece, hidden=(), user_defined=()
    ):
        super().__init__()
        self._unknown_id = unknown_id
        self._is_sentencepiece = is_sentencepiece
        scores = np.array([score for _, score in pieces], np.float64)
        hidden, user_defined = set(hidden), set(user_defined)
        shown = {}  # the last of several equal pieces counts
        for number, (piece, _) in enumerate(pieces):
            if piece and number not in hidden:
                shown[piece] = number
        # SentencePiece looks at normal pieces only.
        normal = [number for number in shown.values() if number not in user_defined]
        lowest = scores[normal].min() if is_sentencepiece else scores.min(initial=0.0)
        self._longest = max(map(len, shown), default=1)
        if is_sentencepiece:
            scores = np.float32(scores).astype(np.float64)
            lowest = np.float32(lowest)
            for piece, number in shown.items():
                if number in user_defined:
                    scores[number] = len(piece.encode()) * scores[normal].max() - 0.1
            unknown_score = np.float32(lowest - np.float32(_PENALTY))
        else:
            unknown_score = lowest - _PENALTY
        self._unknown_score = float(unknown_score)
        self._scores = constant(scores, tf.float64)
        self._trie = Trie([*shown], [*shown.values()])
        self._fallback = None
        if byte_fallback:
            numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
            fallback = [f"<0x{byte:02X}>" for byte in range(256)]
            if not all(each in numbers for each in fallback):
                raise ValueError("byte_fallback needs the pieces <0x00> to <0xFF> in the vocabulary.")
            self._fallback = constant([numbers[each] for each in fallback], tf.int64)
        self._known = None
        if not is_sentencepiece:
            words = [piece for piece in shown if piece[0] == _SPACE][:_KNOWN_WORDS]
            with tf.init_scope(), tf.device("CPU"):
                self._known = KnownWords(words, self._split(tf.constant(words, tf.string)))

    def __call__(self, words):
        """Returns the ids of words: strings `[words]` -> int32 `[words, (pieces)]`."""
        return self._split(words) if self._known is None else self._known(words, self._split)

    @tf.autograph.experimental.do_not_convert
    def _split(self, words):
        characters = tf.strings.unicode_decode(words, "UTF-8")
        symbols, splits = with_separators(characters)
        size = tf.size(symbols, tf.int64)
        scores, ids = self._scores_of_ends(symbols, size)
        lengths = self._best_lengths(scores, splits)  # of the best piece that ends behind a symbol
        places = tf.range(size)
        # Backwards from the last symbol of each word; beyond its first one there is no way.
        owners = row_ids(splits)
        before = places - lengths
        before = tf.where(before < tf.gather(splits, owners), size, before)
        before = tf.where(lengths > 0, before, size)
        lasts = tf.boolean_mask(splits[1:] - 2, splits[1:] - splits[:-1] > 1)
        ends = tf.where(visited(before, lasts))[:, 0]
        owners = tf.gather(owners, ends)
        lengths = tf.gather(lengths, ends)
        ids = tf.gather_nd(ids, tf.stack([ends, self._longest - lengths], axis=1))
        ids, owners = self._name_unknown(ids, owners, tf.gather(symbols, ends))
        return tf.RaggedTensor.from_value_rowids(
            tf.cast(ids, tf.int32), owners, nrows=tf.size(words, tf.int64), validate=False
        )

    def _scores_of_ends(self, symbols, size):
        """Scores and ids of the pieces that end with each symbol, the longest first."""
        starts, lengths, ids = self._trie.matches(symbols, tf.range(size))
        cells = tf.stack([starts + lengths - 1, self._longest - lengths], axis=1)
        shape = [size, self._longest]
        scores = tf.fill(shape, tf.constant(-np.inf, tf.float64))
        scores = tf.tensor_scatter_nd_update(scores, cells, tf.gather(self._scores, ids))
        ids = tf.tensor_scatter_nd_update(tf.fill(shape, tf.constant(-1, tf.int64)), cells, ids)
        singles = scores[:, -1:]  # a character that is no piece is unknown
        singles = tf.where(singles == -np.inf, self._unknown_score, singles)
        return tf.concat([scores[:, :-1], singles], axis=1), ids

    def _best_lengths(self, scores, splits):
        """Lengths of the last pieces of the best ways to each symbol, 0 at separators."""
        num_symbols = splits[1:] - splits[:-1] - 1  # [words]
        order = tf.argsort(num_symbols, direction="DESCENDING", stable=True)
        starts = tf.gather(splits[:-1], order)
        num_symbols = tf.gather(num_symbols, order)
        offsets = tf.range(self._longest, dtype=tf.int64)

        def some_go_on(step, starts, *_):
            return tf.size(starts) > 0

        def go_on(step, starts, num_symbols, best, places, lengths):
            """Takes one more symbol of each word; `best` are scores of the ways up to here."""
            ways = best + tf.gather(scores, starts + step)  # [words, longest]
            chosen, score = self._choose(ways)
            places = places.write(tf.cast(step, tf.int32), starts + step)
            lengths = lengths.write(tf.cast(step, tf.int32), self._longest - chosen)
            best = tf.concat([best[:, 1:], score[:, None]], axis=1)
            step += 1
            active = tf.reduce_sum(tf.cast(num_symbols > step, tf.int32))
            return step, starts[:active], num_symbols[:active], best[:active], places, lengths

        def array():
            return tf.TensorArray(
                tf.int64, 0, dynamic_size=True, infer_shape=False, element_shape=[None]
            )

        active = tf.reduce_sum(tf.cast(num_symbols > 0, tf.int32))
        starts, num_symbols = starts[:active], num_symbols[:active]
        begin = tf.where(offsets == self._longest - 1, tf.constant(0.0, tf.float64), -np.inf)
        best = tf.tile(begin[None, :], [active, 1])
        none = tf.zeros([0], tf.int64)
        vector = tf.TensorShape([None])
        *_, places, lengths = tf.while_loop(
            some_go_on,
            go_on,
            (tf.constant(0, tf.int64), starts, num_symbols, best)
            + (array().write(0, none), array().write(0, none)),
            (
                tf.TensorShape([]),
                vector,
                vector,
                tf.TensorShape([None, self._longest]),
                tf.TensorShape(None),
                tf.TensorShape(None),
            ),
        )
        return tf.scatter_nd(places.concat()[:, None], lengths.concat(), splits[-1:])

    def _choose(self, ways):
        """The best of the ways `[words, longest]`, and its score."""
        if not self._is_sentencepiece:
            return tf.argmax(ways, axis=1), tf.reduce_max(ways, axis=1)
        # SentencePiece stores scores in single precision, compares in double precision, and takes
        # a later way if it is better than the stored score of the one before.
        stored = tf.cast(tf.cast(ways, tf.float32), tf.float64)
        best = tf.reduce_max(stored, axis=1, keepdims=True)
        places = tf.range(self._longest)
        order = tf.where(stored == best, self._longest - places, 0)  # the first one
        order = tf.where(ways > best, self._longest + 1 + places, order)  # or the last one above
        return tf.argmax(order, axis=1), best[:, 0]

    def _name_unknown(self, ids, owners, characters):
        """Unknown characters become bytes, or neighbours of them one piece together."""
        is_unknown = ids < 0
        if self._fallback is None:
            again = is_unknown[1:] & is_unknown[:-1] & (owners[1:] == owners[:-1])
            kept = tf.where(~tf.concat([tf.zeros_like(is_unknown[:1]), again], axis=0))[:, 0]
            ids = tf.where(is_unknown, tf.cast(self._unknown_id, tf.int64), ids)
            return tf.gather(ids, kept), tf.gather(owners, kept)
        characters = tf.where(is_unknown, characters, 0)
        texts = tf.strings.unicode_encode(tf.cast(characters, tf.int32)[:, None], "UTF-8")
        of_bytes = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
        of = row_ids(tf.concat([[0], tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64))], 0))
        of_bytes = tf.gather(self._fallback, tf.cast(of_bytes, tf.int32))
        ids = tf.gather(ids, of)
        return tf.where(ids < 0, of_bytes, ids), tf.gather(owners, of)
