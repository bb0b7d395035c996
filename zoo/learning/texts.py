"""Texts with labels, as tokens."""

import keras
import numpy as np

from zoo.learning.batches import by_length


class LabelledTexts(keras.utils.PyDataset):
    """Batches of texts of similar length, in the chunks that `zoo.readers.text.TextReader` makes.

    Each text occurs once per epoch, with different tokens hidden each time. All batches have the
    same size and one of a few lengths, so that few programs are compiled; the last batch is filled
    up with rows of weight 0.

    Args:
        arrays: `tokens`, the tokens of all texts, concatenated; `sizes` `(texts,)`, the number of
            tokens of each text; and `labels` `(texts,)`. See `flat`.
        batch_size: Number of texts per batch.
        max_length: Maximum number of tokens in a chunk, start and end token included.
        hidden: Share of the tokens that are replaced with masks.
        pad_id, start_id, end_id, mask_id: Ids of special tokens, which are not hidden.
        lengths: Total numbers of tokens that texts are padded to, increasing, each at most
            `max_length` or a multiple of it. Only the beginning and the end of longer texts are
            kept.
        seed: Seed of everything random.

    Raises:
        ValueError: If a length is above `max_length`, but not a multiple of it.
    """

    lens = None

    def __init__(
        self,
        arrays,
        batch_size,
        max_length,
        hidden,
        pad_id,
        start_id,
        end_id,
        mask_id,
        lengths,
        seed=1,
    ):
        super().__init__()
        for length in lengths:
            if length > max_length and length % max_length:
                raise ValueError(
                    f"`lengths` above max_length={max_length} must be multiples of it. "
                    f"Received: {length}."
                )
        self.tokens, self.labels = arrays["tokens"], arrays["labels"].astype("int32")
        self.sizes = arrays["sizes"].astype("int64")
        self.first = np.cumsum(self.sizes) - self.sizes
        self.batch_size, self.hidden = batch_size, hidden
        self.pad_id, self.start_id, self.end_id, self.mask_id = pad_id, start_id, end_id, mask_id
        # The number of chunks, and of tokens in each.
        self.shapes = [(max(1, each // max_length), min(each, max_length)) for each in lengths]
        self.rooms = [chunks * (width - 2) for chunks, width in self.shapes]
        self.seed, self.epoch = seed, -1
        self.on_epoch_end()

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, number):
        rows, place = self.batches[number]
        ids = np.full((self.batch_size, *self.shapes[place]), self.pad_id, "int32")
        for chunks, row in zip(ids, rows, strict=False):
            self._fill(chunks, row, self.rooms[place])
        draws = np.random.default_rng((self.seed, self.epoch, number))
        is_hidden = draws.random(ids.shape, "float32") < self.hidden
        is_hidden &= ~np.isin(ids, [self.pad_id, self.start_id, self.end_id])
        labels, weights = np.zeros(self.batch_size, "int32"), np.zeros(self.batch_size, "float32")
        labels[: len(rows)], weights[: len(rows)] = self.labels[rows], 1.0
        return np.where(is_hidden, np.int32(self.mask_id), ids), labels, weights

    def on_epoch_end(self):
        """Draws a new order."""
        self.epoch += 1
        draws = np.random.default_rng((self.seed, self.epoch))
        rows = draws.permutation(len(self.sizes))
        sizes = np.minimum(self.sizes[rows], self.rooms[-1])
        places = np.searchsorted(self.rooms, sizes)
        self.batches = by_length(rows, places, len(self.rooms), self.batch_size, draws)

    def _fill(self, chunks, row, room):
        """Writes a text into its chunks `(chunks, width)`."""
        first, size = self.first[row], self.sizes[row]
        text = self.tokens[first : first + size]
        if size > room:
            text = np.concatenate([text[: room // 2], text[size - (room - room // 2) :]])
        width = room // len(chunks)
        for number in range(max(1, -(-len(text) // width))):
            part = text[number * width : (number + 1) * width]
            chunks[number, : len(part) + 2] = [self.start_id, *part, self.end_id]


def flat(texts, labels):
    """Returns the arrays of `LabelledTexts`.

    Args:
        texts: List of vectors of tokens.
        labels: Label of each, at least 0.
    """
    arrays = {
        "tokens": np.concatenate(texts),
        "sizes": np.array([len(text) for text in texts]),
        "labels": np.array(labels),
    }
    return {name: x.astype(np.min_scalar_type(x.max(initial=0))) for name, x in arrays.items()}
