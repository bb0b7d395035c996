"""Tiny Shakespeare, whose builder is in TensorFlow Datasets."""

from zoo.data.prepared import prepared


def load_tiny_shakespeare(split="train", data_dir=None):
    """Loads the text of a split of tiny Shakespeare.

    Args:
        split: `"train"`, `"validation"`, `"test"`, or several joined by `+`: `"validation+test"`.
        data_dir: Folder where TensorFlow Datasets has prepared it. Defaults to its own folder,
            where the data set is downloaded to if it is missing.

    Returns:
        A `str`.

    Raises:
        FileNotFoundError: If `data_dir` lacks the data set.

    Example:

    >>> train = load_tiny_shakespeare("train")  # doctest: +SKIP
    """
    builder = prepared("tiny_shakespeare", "tiny Shakespeare", data_dir)
    texts = [next(iter(builder.as_dataset(split=part)))["text"] for part in split.split("+")]
    return "".join(text.numpy().decode() for text in texts)
