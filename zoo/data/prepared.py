"""Data sets whose builders are in TensorFlow Datasets, downloaded or prepared before."""

try:
    import tensorflow_datasets as tfds
except ImportError as error:
    raise ImportError(
        "This data set needs tensorflow_datasets, which could not be imported. "
        'Install it with: pip install "keras-attention-zoo[data]"'
    ) from error


def prepared(name, title, data_dir=None):
    """Returns the builder of a prepared data set.

    Args:
        name: Its name in TensorFlow Datasets.
        title: Its name in error messages.
        data_dir: Folder where TensorFlow Datasets has prepared it. Defaults to its own folder,
            where the data set is downloaded to if it is missing.

    Raises:
        FileNotFoundError: If `data_dir` lacks the data set.
    """
    builder = tfds.builder(name, data_dir=data_dir)
    if data_dir is None:
        builder.download_and_prepare()
    elif not builder.is_prepared():
        raise FileNotFoundError(
            f"'{data_dir}' holds no {title} as TensorFlow Datasets prepares it: there is no "
            f"'{builder.data_path}'. Leave --data-dir (data_dir) out to download it, or prepare it "
            f"there: tfds.load('{name}', data_dir='{data_dir}')."
        )
    return builder
