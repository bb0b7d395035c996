"""The Free Spoken Digit Dataset, whose builder is in TensorFlow Datasets."""

import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo.data.prepared import prepared

SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
# Of 50 recordings of each digit by each speaker, the first 5 are the test set.
_RECORDINGS = {"test": range(5), "validation": range(5, 10), "train": range(10, 50)}
SPLITS = (*_RECORDINGS, "-test", *SPEAKERS, *(f"-{speaker}" for speaker in SPEAKERS))


def load_spoken_digit(split="train", data_dir=None):
    """Loads recordings of digits, spoken in English by six speakers.

    Args:
        split: `"train"`, 2,400 recordings; `"validation"`, numbers 5 to 9 of the 50 recordings of
            each digit by each speaker; `"test"`, numbers 0 to 4, as defined by its authors; or
            `"-test"`, all the others. Or the 500 recordings of a speaker, such as `"theo"`, or
            those of all other speakers, such as `"-theo"`.
        data_dir: Folder where TensorFlow Datasets has prepared it. Defaults to its own folder,
            where the data set is downloaded to if it is missing.

    Returns:
        A `tf.data.Dataset` of (int16 `(samples,)` at 8,000 samples per second, int64 digit).

    Raises:
        ValueError: If there is no such split.
        FileNotFoundError: If `data_dir` lacks the data set.

    Example:

    >>> train = load_spoken_digit("train")  # doctest: +SKIP
    """
    if split not in SPLITS:
        raise ValueError(unknown_name("split of the spoken digits", split, SPLITS))
    builder = prepared("spoken_digit", "spoken digits", data_dir)
    recordings = builder.as_dataset(split="train")
    recordings = recordings.filter(lambda each: is_in(each["audio/filename"], split))
    return recordings.map(lambda each: (tf.cast(each["audio"], tf.int16), each["label"]))


def is_in(name, split):
    """Returns whether the recording of a file's name, `digit_speaker_number.wav`, is in a split.

    Example:

    >>> bool(is_in("7_theo_4.wav", "test")), bool(is_in("7_theo_4.wav", "-theo"))
    (True, False)
    """
    if split.startswith("-"):
        return ~is_in(name, split.removeprefix("-"))
    parts = tf.strings.split(tf.strings.regex_replace(name, r"\.wav$", ""), "_")
    if split in _RECORDINGS:
        number = tf.strings.to_number(parts[2], tf.int32)
        return (number >= _RECORDINGS[split].start) & (number < _RECORDINGS[split].stop)
    return parts[1] == split
