"""Pairs of texts, as tokens."""

import keras
import numpy as np

from zoo.learning.batches import by_length

LENGTHS = (16, 24, 40, 64)


class TokenPairs(keras.utils.PyDataset):
    """Batches of pairs of texts of similar length.

    A pass over the pairs is an epoch, and after the last pass comes the first one again. The
    batches of one length all have one size, so that few programs are compiled: what is left of one
    length goes to the next, and the last batch is filled up with rows of weight 0.

    Args:
        arrays: `tokens`, all sources and targets one after the other, each target right after its
            source, both with their end tokens; `source_lengths` and `target_lengths` `(pairs,)`;
            `pairs_of_pass` `(passes,)`. See `flat`.
        batch_size: Pairs a batch.
        start_id: The token that a target begins with.
        pad_id: The token that pads.
        lengths: Lengths that texts are padded to, increasing; longer pairs are left out.
        seed: Seed of the order.
    """

    lens = None

    def __init__(self, arrays, batch_size, start_id, pad_id=0, lengths=LENGTHS, seed=1):
        super().__init__()
        self.tokens = arrays["tokens"]
        self.source_lengths, self.target_lengths = (
            arrays[name].astype("int64") for name in ("source_lengths", "target_lengths")
        )
        both = self.source_lengths + self.target_lengths
        self.first = np.cumsum(both) - both
        self.ends = np.cumsum(arrays["pairs_of_pass"])
        self.batch_size, self.start_id, self.pad_id = batch_size, start_id, pad_id
        self.lengths = tuple(lengths)
        self.draws = np.random.default_rng(seed)
        self.number = -1
        self.on_epoch_end()

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, number):
        rows, length = self.batches[number]
        source_ids, labels = np.full((2, self.batch_size, length), self.pad_id, "int32")
        weights = np.zeros((self.batch_size, length), "float32")
        for place, row in enumerate(rows):
            first, middle = self.first[row], self.first[row] + self.source_lengths[row]
            size = self.target_lengths[row]
            source_ids[place, : self.source_lengths[row]] = self.tokens[first:middle]
            labels[place, :size] = self.tokens[middle : middle + size]
            weights[place, :size] = 1.0
        starts = np.full((self.batch_size, 1), self.start_id, "int32")
        # The end token stands where nothing is predicted from it.
        target_ids = np.concatenate([starts, labels[:, :-1]], axis=1)
        return {"source_ids": source_ids, "target_ids": target_ids}, labels, weights

    def on_epoch_end(self):
        """Takes the next pass, in an order of its own."""
        self.number = (self.number + 1) % len(self.ends)
        end = self.ends[self.number]
        begin = self.ends[self.number - 1] if self.number else 0
        rows = self.draws.permutation(np.arange(begin, end))
        longest = np.maximum(self.source_lengths[rows], self.target_lengths[rows])
        places = np.searchsorted(self.lengths, longest)
        batches = by_length(rows, places, len(self.lengths), self.batch_size, self.draws)
        self.batches = [(rows, self.lengths[place]) for rows, place in batches]


def flat(passes):
    """Returns the arrays of `TokenPairs`.

    Args:
        passes: For each pass the list of its pairs of two vectors of tokens.
    """
    pairs = [pair for each in passes for pair in each]
    return {
        "tokens": np.concatenate([text for pair in pairs for text in pair]).astype("uint16"),
        "source_lengths": np.array([len(source) for source, _ in pairs], "uint16"),
        "target_lengths": np.array([len(target) for _, target in pairs], "uint16"),
        "pairs_of_pass": np.array([len(each) for each in passes], "int64"),
    }
