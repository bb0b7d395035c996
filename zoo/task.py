"""What every task has in common."""

import keras


def as_texts(texts):
    """Returns a list of texts for a text or a list of them, and whether it was one text."""
    if isinstance(texts, str):
        return [texts], True
    texts = list(texts)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"Expected a str or a list of str. Received: {text!r} of type "
                f"{type(text).__name__} at position {position}."
            )
    return texts, False


def in_batches_by_length(function, lengths, batch_size):
    """Calls a function on batches of places of similar length.

    Args:
        function: Takes a list of places, returns a dictionary of tensors with the batch first.
        lengths: Length of what stands at each place.
        batch_size: Places a batch.

    Returns:
        A list of dictionaries of NumPy arrays, one for each place, in the original order.
    """
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    rows = [None] * len(lengths)
    for first in range(0, len(lengths), batch_size):
        places = by_length[first : first + batch_size]
        outputs = {name: value.numpy() for name, value in function(places).items()}
        for row, place in enumerate(places):
            rows[place] = {name: value[row] for name, value in outputs.items()}
    return rows


class Task(keras.Model):
    """A model that also owns its text processing, decoding and export."""
