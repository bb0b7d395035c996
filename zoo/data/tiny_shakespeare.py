"""Tiny Shakespeare, of which TensorFlow Datasets has the builder."""

try:
    import tensorflow_datasets as tfds
except ImportError as error:
    raise ImportError(
        "This data set needs tensorflow_datasets, which could not be imported. "
        'Install it with: pip install "keras-attention-zoo[data]"'
    ) from error


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
    builder = tfds.builder("tiny_shakespeare", data_dir=data_dir)
    if data_dir is None:
        builder.download_and_prepare()
    elif not builder.is_prepared():
        raise FileNotFoundError(
            f"'{data_dir}' holds no tiny Shakespeare as TensorFlow Datasets prepares it: there is "
            f"no '{builder.data_path}'. Leave --data-dir (data_dir) out to download it, or prepare "
            f"it there: tfds.load('tiny_shakespeare', data_dir='{data_dir}')."
        )
    texts = [next(iter(builder.as_dataset(split=part)))["text"] for part in split.split("+")]
    return "".join(text.numpy().decode() for text in texts)
