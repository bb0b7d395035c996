"""The common interface of all tokenizers, which tasks use."""

from typing import NamedTuple

import tensorflow as tf

from zoo.readers.text.templates import BARE


class Encoded(NamedTuple):
    """The inputs of a model.

    Attributes:
        token_ids: int32, `[batch, length]`.
        segment_ids: The index of the segment of each token, int32, `[batch, length]`.
    """

    token_ids: tf.Tensor
    segment_ids: tf.Tensor


class TextTokenizer(tf.Module):
    """Turns texts into ids of pieces and back, in core TensorFlow ops.

    Subclasses have `tokenize`, `detokenize`, `piece_texts`, `piece_bytes`, `pieces`, `save`, `load`
    and these attributes.

    Attributes:
        vocabulary_size: Number of ids.
        longest_piece: Number of bytes of the longest piece.
        pad_id, start_id, end_id, mask_id, unknown_id: Ids of special tokens; `None` for those that
            a vocabulary does not have.
        end_ids: All ids that end a text, a tuple, `end_id` first.
        prefix_space: Whether `tokenize` puts a space before a text that is to be put together with
            others.
        templates: `templates.Item`s of a single text and of a pair.
        truncation_side: Where texts are truncated: `"right"`, at the end, or `"left"`.
        longest_pair: Maximum number of tokens of a pair of texts, or `None`.
        language_codes: The tokens that name the language of a translation, such as `">>fr<<"`.
        language_id: Id of the token that every text begins with, or `None`.
        tail_ids: Ids of the tokens behind the end token of a source text, a tuple.
    """

    mask_id = None
    unknown_id = None
    prefix_space = False
    templates = BARE
    truncation_side = "right"
    longest_pair = None
    language_codes = ()
    language_id = None
    tail_ids = ()

    @property
    def source(self):
        """The tokenizer of source texts, which may be another one."""
        return self

    @property
    def opening_ids(self):
        """The special tokens before a single text, a tuple."""
        return (self.start_id,)

    @property
    def closing_ids(self):
        """The special tokens behind a single text, a tuple."""
        return (self.end_id,)

    @property
    def own_pad_id(self):
        """`pad_id`, or −1 if there is none, or if it is also a token of texts."""
        tokens = {None, self.start_id, *self.end_ids, *self.opening_ids, *self.closing_ids}
        return -1 if self.pad_id in tokens else self.pad_id

    @property
    def end_ids(self):
        return () if self.end_id is None else (self.end_id,)

    def __reduce__(self):  # for pickle and copy, which cannot take the tables of TensorFlow
        return type(self).from_config, (self.get_config(),)

    @tf.autograph.experimental.do_not_convert
    def encode(self, texts, pairs=None, *, special_tokens=True, max_length=None, dense=True):
        """Turns texts, or pairs of texts, into the inputs of a model.

        Texts that are too long are truncated on `truncation_side`, but keep their special tokens;
        of a pair, the longer text is truncated first.

        Args:
            texts: Strings `[batch]`.
            pairs: Strings `[batch]`, the second texts of pairs, or `None`.
            special_tokens: Whether to add special tokens.
            max_length: Maximum number of tokens of a row, special tokens included, or `None`.
            dense: Whether rows are padded to the longest one, or ragged.

        Returns:
            `Encoded`: token ids and segment ids.

        Raises:
            ValueError: If `max_length` has no room for a token of each text, or if rows need
                padding and there is no padding token.
        """
        read = [self.tokenize(each) for each in (texts, pairs) if each is not None]
        items = self.templates[len(read) - 1]
        if not special_tokens:
            items = [item for item in items if item.text is not None]
        if max_length is not None:
            room = max_length - sum(len(item.token_ids) for item in items)
            if room < len(read):
                raise ValueError(
                    f"max_length={max_length} has no room for {len(read)} texts and "
                    f"{max_length - room} special tokens."
                )
            lengths = _lengths([each.row_lengths() for each in read], room)
            read = list(map(self.truncated, read, lengths))
        token_ids, segment_ids = arranged(read, items)
        if not dense:
            return Encoded(token_ids, segment_ids)
        if self.pad_id is None:
            raise ValueError("there is no padding token: use dense=False, or set pad_id.")
        return Encoded(token_ids.to_tensor(self.pad_id), segment_ids.to_tensor(0))

    def truncated(self, tokens, lengths):
        """Truncates texts on `truncation_side`.

        Args:
            tokens: Ragged ids `[batch, (pieces)]`.
            lengths: Maximum number of tokens: of each text, int64 `[batch]`, or of all, an `int`.
        """
        sizes = tf.minimum(tokens.row_lengths(), lengths)
        starts = tokens.row_starts()
        if self.truncation_side == "left":
            starts += tokens.row_lengths() - sizes
        places = tf.ragged.range(starts, starts + sizes)
        return places.with_values(tf.gather(tokens.values, places.values))


def arranged(read, items):
    """Puts the ids of texts, and special tokens, in the order of a template.

    Args:
        read: List of ragged int32 ids `[batch, (pieces)]`, one for each text.
        items: `templates.Item`s.

    Returns:
        Ragged token ids and segment ids, int32 `[batch, (length)]`.
    """
    batch = read[0].nrows()
    token_ids, segment_ids = [], []
    for item in items:
        if item.text is None:
            ids = tf.tile(tf.constant([item.token_ids], tf.int32), [batch, 1])
            ids = tf.RaggedTensor.from_tensor(ids)
        else:
            ids = read[item.text]
        token_ids.append(ids)
        segment_ids.append(ids.with_values(tf.fill(tf.shape(ids.values), item.segment)))
    return tf.concat(token_ids, axis=1), tf.concat(segment_ids, axis=1)


def _lengths(lengths, room):
    """Returns how many tokens to keep of one text, or of two; the longest first, like `tokenizers`.

    Args:
        lengths: List of the numbers of tokens of the first texts, and perhaps the second ones.
        room: Maximum number of tokens of a text or a pair.
    """
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    short = tf.minimum(first, second)
    long = tf.maximum(short, room - short)
    is_halved = short + long > room
    half, rest = (tf.constant(each, short.dtype) for each in divmod(room, 2))
    short = tf.where(is_halved, half, short)
    long = tf.where(is_halved, half + rest, long)
    is_swapped = first > second
    fits = first + second <= room
    kept = tf.where(is_swapped, long, short), tf.where(is_swapped, short, long)
    return [tf.where(fits, *each) for each in zip(lengths, kept, strict=True)]
