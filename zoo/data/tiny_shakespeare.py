"""Tiny Shakespeare, of which TensorFlow Datasets has the builder."""

from zoo.data.prepared import prepared


def load_tiny_shakespeare(split="train", data_dir=None):
    """Loads the text of a split of tiny Shakespeare.

    Args:
        split: `"train"`, `"validation"`, `"test"`, or several in a row: `"validation+test"`.
        data_dir: Folder where TensorFlow Datasets has prepared it. By default its own one, where it
            is downloaded to unless it is there.

    Returns:
        A `str`.

    Raises:
        FileNotFoundError: `data_dir` lacks the data set.

    Example:

    >>> train = load_tiny_shakespeare("train")  # doctest: +SKIP
    """
    builder = prepared("tiny_shakespeare", "tiny Shakespeare", data_dir)
    texts = [next(iter(builder.as_dataset(split=part)))["text"] for part in split.split("+")]
    return "".join(text.numpy().decode() for text in texts)
