"""MNIST, whose builder is in TensorFlow Datasets."""

from keras_attention.errors import unknown_name
from zoo.data.prepared import prepared

VALIDATION = 5000  # images at the end of the training part
_SPLITS = {
    "train": f"train[:-{VALIDATION}]",
    "validation": f"train[-{VALIDATION}:]",
    "test": "test",
}


def load_mnist(split="train", data_dir=None):
    """Loads a split of MNIST.

    Args:
        split: `"train"`, 55,000 images; `"validation"`, the 5,000 others of the training part; or
            `"test"`, 10,000.
        data_dir: Folder where TensorFlow Datasets has prepared it. Defaults to its own folder,
            where the data set is downloaded to if it is missing.

    Returns:
        A `tf.data.Dataset` of (uint8 `(28, 28, 1)`, int64 digit).

    Raises:
        ValueError: If there is no such split.
        FileNotFoundError: If `data_dir` lacks the data set.

    Example:

    >>> train = load_mnist("train")  # doctest: +SKIP
    """
    if split not in _SPLITS:
        raise ValueError(unknown_name("split of MNIST", split, _SPLITS))
    builder = prepared("mnist", "MNIST", data_dir)
    return builder.as_dataset(split=_SPLITS[split], as_supervised=True)
