"""Unigram: splits a text into known pieces in the most probable way."""

import numpy as np
import tensorflow as tf

from zoo.readers.text.tables import KnownWords, constant, row_ids, static_table
from zoo.readers.text.trie import Trie, visited, with_separators

_PENALTY = 10.0  # of an unknown character, below the least probable piece
_KNOWN_WORDS = 30000  # pieces are sorted by probability
_SPACE = "▁"


class Unigram(tf.Module):
    """Finds the most probable pieces by the Viterbi algorithm.

    Scores are summed like in the `tokenizers` library, in double precision for each word. This
    matters for equally probable splits: the one whose last piece is longer is chosen.

    Reference: Kudo 2018, "Subword Regularization".

    Args:
        pieces: List of `(piece, score)`, the score being its log-probability.
        unknown_id: Index of the piece for unknown characters.
        byte_fallback: Whether unknown characters become the pieces of their bytes, `<0x..>`.

    Raises:
        ValueError: If byte pieces are missing.
    """

    _dtype = tf.float64

    def __init__(self, pieces, unknown_id, byte_fallback):
        super().__init__()
        scores = np.array([score for _, score in pieces], np.float64)
        shown = {piece: number for number, (piece, _) in enumerate(pieces) if piece}
        self._set(pieces, shown, scores, scores.min() - _PENALTY, unknown_id, byte_fallback)
        words = [piece for piece in shown if piece[0] == _SPACE][:_KNOWN_WORDS]
        with tf.init_scope(), tf.device("CPU"):
            self._known = KnownWords(words, self._split(tf.constant(words, tf.string)))

    def _set(self, pieces, shown, scores, unknown_score, unknown_id, byte_fallback):
        self._unknown_id, self._unknown_score = unknown_id, constant(unknown_score, self._dtype)
        self._longest = max(map(len, shown), default=1)
        self._scores = constant(scores, self._dtype)
        self._trie = Trie([*shown], [*shown.values()])
        self._fallback, self._names = None, None
        if byte_fallback:
            numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
            fallback = [f"<0x{byte:02X}>" for byte in range(256)]
            if not all(each in numbers for each in fallback):
                raise ValueError("byte_fallback needs the pieces <0x00> to <0xFF>.")
            self._fallback = constant([numbers[each] for each in fallback], tf.int64)

    def __call__(self, words):
        """Returns the ids of words: strings `[words]` -> int32 `[words, (pieces)]`."""
        return self._known(words, self._split)

    @tf.autograph.experimental.do_not_convert
    def _split(self, words):
        characters = tf.strings.unicode_decode(words, "UTF-8")
        symbols, splits = with_separators(characters)
        size = tf.size(symbols, tf.int64)
        scores, ids = self._scores_of_ends(symbols, size)
        lengths = _best_lengths(scores, splits, self._longest)
        places = tf.range(size)
        # Backwards from the last symbol of each word; no path goes beyond its first one.
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
        """Returns the scores and ids of the pieces that end at each symbol, the longest first."""
        starts, lengths, ids = self._trie.matches(symbols, tf.range(size))
        cells = tf.stack([starts + lengths - 1, self._longest - lengths], axis=1)
        shape = [size, self._longest]
        scores = tf.fill(shape, tf.constant(-np.inf, self._dtype))
        scores = tf.tensor_scatter_nd_update(scores, cells, tf.gather(self._scores, ids))
        ids = tf.tensor_scatter_nd_update(tf.fill(shape, tf.constant(-1, tf.int64)), cells, ids)
        singles = scores[:, -1:]  # a character that is not a piece is unknown
        singles = tf.where(singles == -np.inf, self._unknown_score, singles)
        return tf.concat([scores[:, :-1], singles], axis=1), ids

    def _name_unknown(self, ids, owners, characters):
        """Turns unknown characters into bytes, or each run of them into one piece."""
        is_unknown = ids < 0
        if self._fallback is None:
            again = is_unknown[1:] & is_unknown[:-1] & (owners[1:] == owners[:-1])
            is_kept = ~tf.concat([tf.zeros_like(is_unknown[:1]), again], axis=0)
            if self._names is None:
                ids = tf.where(is_unknown, tf.cast(self._unknown_id, tf.int64), ids)
            else:
                run = tf.cumsum(tf.cast(is_kept, tf.int64), exclusive=True)
                run = tf.where(is_kept, run, run - 1)
                texts = tf.RaggedTensor.from_value_rowids(
                    tf.cast(characters, tf.int32), run, validate=False
                )
                names = self._names.lookup(tf.strings.unicode_encode(texts, "UTF-8"))
                ids = tf.where(is_unknown, tf.gather(names, run), ids)
            kept = tf.where(is_kept)[:, 0]
            return tf.gather(ids, kept), tf.gather(owners, kept)
        characters = tf.where(is_unknown, characters, 0)
        texts = tf.strings.unicode_encode(tf.cast(characters, tf.int32)[:, None], "UTF-8")
        of_bytes = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
        of = row_ids(tf.concat([[0], tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64))], 0))
        of_bytes = tf.gather(self._fallback, tf.cast(of_bytes, tf.int32))
        ids = tf.gather(ids, of)
        return tf.where(ids < 0, of_bytes, ids), tf.gather(owners, of)


class SentencePieceUnigram(Unigram):
    """The same for whole texts, with scores summed in single precision like in SentencePiece.

    Args:
        pieces, unknown_id, byte_fallback: As for `Unigram`.
        hidden: Indices of pieces that no text is split into, such as `<s>` and `<0x41>`.
        user_defined: Indices of pieces that are always chosen.
        names: Dictionary from texts of runs of unknown characters to indices.
    """

    _dtype = tf.float32

    def __init__(self, pieces, unknown_id, byte_fallback, hidden=(), user_defined=(), names=None):
        tf.Module.__init__(self)
        hidden, user_defined = {*hidden}, {*user_defined}
        scores = np.float32([score for _, score in pieces])
        shown = {piece: number for number, (piece, _) in enumerate(pieces) if number not in hidden}
        normal = scores[[number for number in shown.values() if number not in user_defined]]
        lowest, highest = normal.min(), np.float64(normal.max())
        scores = scores.astype(np.float64)
        for piece, number in shown.items():
            if number in user_defined:
                scores[number] = len(piece.encode()) * highest - 0.1
        unknown_score = lowest - np.float32(_PENALTY)
        self._set(pieces, shown, scores, unknown_score, unknown_id, byte_fallback)
        if names:
            with tf.init_scope(), tf.device("CPU"):
                self._names = static_table([*names], [*names.values()], default=unknown_id)

    def __call__(self, words):
        return self._split(words)


class Renumbered(tf.Module):
    """A model whose pieces have the ids of another vocabulary, as in Marian.

    Args:
        model: The model, which returns indices of pieces.
        ids: The id of each index.
    """

    def __init__(self, model, ids):
        super().__init__()
        self._model, self._ids = model, constant(ids, tf.int32)

    def __call__(self, words):
        pieces = self._model(words)
        return pieces.with_values(tf.gather(self._ids, pieces.values))


@tf.function(
    autograph=False, reduce_retracing=True
)  # eager steps would take a hundred times longer
def _best_lengths(scores, splits, longest):
    """Returns the length of the last piece on the best path to each symbol, 0 at separators."""
    scores = tf.ensure_shape(scores, [None, longest])
    num_symbols = splits[1:] - splits[:-1] - 1  # [words]
    order = tf.argsort(num_symbols, direction="DESCENDING", stable=True)
    starts = tf.gather(splits[:-1], order)
    num_symbols = tf.gather(num_symbols, order)
    offsets = tf.range(longest, dtype=tf.int64)

    def some_go_on(step, starts, *_):
        return tf.size(starts) > 0

    def go_on(step, starts, num_symbols, best, places, lengths):
        """Extends the paths by one symbol of each word; `best` are their scores so far."""
        ways = best + tf.gather(scores, starts + step)  # [words, longest]
        chosen, score = tf.argmax(ways, axis=1), tf.reduce_max(ways, axis=1)  # the longest first
        places = places.write(tf.cast(step, tf.int32), starts + step)
        lengths = lengths.write(tf.cast(step, tf.int32), longest - chosen)
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
    begin = tf.where(offsets == longest - 1, tf.constant(0, scores.dtype), -np.inf)
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
            tf.TensorShape([None, longest]),
            tf.TensorShape(None),
            tf.TensorShape(None),
        ),
    )
    return tf.scatter_nd(places.concat()[:, None], lengths.concat(), splits[-1:])
