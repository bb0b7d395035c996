"""MNIST, of which TensorFlow Datasets has the builder."""

try:
    import tensorflow_datasets as tfds
except ImportError as error:
    raise ImportError(
        "This data set needs tensorflow_datasets, which could not be imported. "
        'Install it with: pip install "keras-attention-zoo[data]"'
    ) from error

VALIDATION = 5000  # pictures at the end of the training part
_SPLITS = {
    "train": f"train[:-{VALIDATION}]",
    "validation": f"train[-{VALIDATION}:]",
    "test": "test",
}


def load_mnist(split="train", data_dir=None):
    """Loads a split of MNIST.

    Args:
        split: `"train"`, 55,000 pictures; `"validation"`, the 5,000 others of the training part; or
            `"test"`, 10,000.
        data_dir: Folder where TensorFlow Datasets has prepared it. By default its own one, where it
            is downloaded to unless it is there.

    Returns:
        A `tf.data.Dataset` of (uint8 `(28, 28, 1)`, int64 digit).

    Raises:
        FileNotFoundError: `data_dir` lacks the data set.

    Example:

    >>> train = load_mnist("train")  # doctest: +SKIP
    """
    builder = tfds.builder("mnist", data_dir=data_dir)
    if data_dir is None:
        builder.download_and_prepare()
    elif not builder.is_prepared():
        raise FileNotFoundError(
            f"'{data_dir}' holds no MNIST as TensorFlow Datasets prepares it: there is no "
            f"'{builder.data_path}'. Leave --data-dir (data_dir) out to download it, or prepare it "
            f"there: tfds.load('mnist', data_dir='{data_dir}')."
        )
    return builder.as_dataset(split=_SPLITS[split], as_supervised=True)
