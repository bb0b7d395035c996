"""Tatoeba's English and German sentences as a TensorFlow Datasets builder, and `load_tatoeba`."""

import functools
import hashlib

from zoo.data import tatoeba_files as files
from zoo.data.prepared import prepare, tfds

SPLITS = {"train": "train", "validation": "train", "dev": "dev"}  # and the file each is read from

_DESCRIPTION = """\
Everyday sentences of Tatoeba in English with one or several German translations, as manythings.org
collected them for vocabulary cards. One English sentence an example, with all its translations.
"""

_CITATION = """\
@misc{tatoeba,
  title = {Tatoeba: a collection of sentences and translations},
  howpublished = {https://tatoeba.org, by https://www.manythings.org/anki (2018-05-13)},
}
"""


class TatoebaEnDe(tfds.core.GeneratorBasedBuilder):
    """The data set `tatoeba_en_de`.

    Its files are a fixed split of a version that is no longer offered, so there is nothing to
    download: `DownloadConfig(manual_dir=...)` names the folder that holds `train.tsv.gz` and
    `dev.tsv.gz`. Their content must match `tatoeba_files.CHECKSUMS`.

    The split `dev` is for reporting. The split `validation`, for model selection, is held out from
    the training file, see `tatoeba_files.hold_out`; `train` is the rest.

    Args:
        splits: Names of the splits to prepare, by default all three.
        **kwargs: Arguments of `tfds.core.GeneratorBasedBuilder`: `data_dir`, `version`.
    """

    name = "tatoeba_en_de"
    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = files.HOW_TO_GET

    def __init__(self, *, splits=tuple(SPLITS), **kwargs):
        self._asked_splits = splits
        super().__init__(**kwargs)

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {"en": tfds.features.Text(), "de": tfds.features.Sequence(tfds.features.Text())}
            ),
            supervised_keys=("en", "de"),
            homepage="https://www.manythings.org/anki",
            citation=_CITATION,
            license="CC-BY 2.0 France; name tatoeba.org and manythings.org.",
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        generators = {}
        for split in self._asked_splits:
            path = files.find_file(dl_manager.manual_dir, SPLITS[split])
            translations = files.read_translations(path)
            if split != "dev":
                remaining, held_out = files.hold_out(translations, files.HELD_OUT)
                translations = remaining if split == "train" else held_out
            generators[split] = self._generate_examples(translations)
        return generators

    def _generate_examples(self, translations):
        for number, (english, german) in enumerate(translations.items()):
            yield number, {"en": english, "de": german}


def load_tatoeba(split="train", data_dir=None, manual_dir=None):
    """Loads English sentences of Tatoeba with their German translations.

    Args:
        split: `"train"`, `"validation"` (1,000 sentences held out from the training file) or
            `"dev"` (2,000 sentences).
        data_dir: Folder of prepared data sets. Defaults to that of TensorFlow Datasets.
        manual_dir: Folder with `train.tsv.gz` and `dev.tsv.gz`. It may be omitted once the split is
            prepared.

    Returns:
        A `tf.data.Dataset` of `(source, targets)`: a scalar string, and a vector of at least one.

    Raises:
        ValueError: If the split is unknown, or the content of a file is not the pinned one.
        FileNotFoundError: If `manual_dir` lacks the file; the message says what it should contain.

    Example:

    >>> train = load_tatoeba("train", manual_dir="~/tatoeba_en_de")  # doctest: +SKIP
    """
    if split not in SPLITS:
        raise ValueError(f"Unknown split={split!r}; Tatoeba has {', '.join(SPLITS)}.")
    root = TatoebaEnDe(data_dir=data_dir).data_dir_root
    # TFDS never adds a split to what it has prepared. So each is prepared for itself, in the place
    # of its content.
    name = files.FILES[SPLITS[split]]
    key = hashlib.sha256(f"{files.CHECKSUMS[name]} {files.HELD_OUT}".encode()).hexdigest()[:16]
    place = root / "tatoeba_splits" / f"{split}-{key}"
    make_builder = functools.partial(TatoebaEnDe, splits=(split,), data_dir=place)
    builder = make_builder()
    if manual_dir is not None or not builder.is_prepared():
        files.find_file(manual_dir, SPLITS[split])
        builder = prepare(
            make_builder,
            download_dir=root / "downloads",
            download_config=tfds.download.DownloadConfig(manual_dir=manual_dir),
        )
    return builder.as_dataset(split=split, as_supervised=True)
