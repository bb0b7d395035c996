"""Data sets whose builders are in TensorFlow Datasets, downloaded or prepared before."""

import functools

try:
    import tensorflow_datasets as tfds  # the modules with builders import it from here
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
    if data_dir is None:
        return prepare(functools.partial(tfds.builder, name))
    builder = tfds.builder(name, data_dir=data_dir)
    if not builder.is_prepared():
        raise FileNotFoundError(
            f"'{data_dir}' holds no {title} as TensorFlow Datasets prepares it: there is no "
            f"'{builder.data_path}'. Leave --data-dir (data_dir) out to download it, or prepare it "
            f"there: tfds.load('{name}', data_dir='{data_dir}')."
        )
    return builder


def prepare(make_builder, **arguments):
    """Prepares a data set, unless that is done, and returns its builder.

    Several processes may do so at once: the first that is done provides the data for all.

    Args:
        make_builder: Function that returns the builder.
        **arguments: Arguments of `download_and_prepare`.
    """
    try:
        make_builder().download_and_prepare(**arguments)
    except FileExistsError:
        if not make_builder().is_prepared():
            raise
    return make_builder()  # a builder made before the data was there knows no splits
