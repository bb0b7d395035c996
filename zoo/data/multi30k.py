"""Multi30k as a TensorFlow Datasets builder, and `load_multi30k`."""

import functools
import urllib.request
import warnings

from zoo.data import multi30k_files as files
from zoo.data.prepared import prepare, tfds

_CONFIG_OF_PAIR = {"en-de": "en_de", "de-en": "en_de", "en-fr": "en_fr", "fr-en": "en_fr"}

_DESCRIPTION = """\
Multi30k, task 1: descriptions of Flickr30k images in English, translated by professionals into
German and French. One sentence an example, cased, not tokenized, in the order of the files.
"""

_CITATION = """\
@inproceedings{elliott-etal-2016-multi30k,
  title = {Multi30K: Multilingual English-German Image Descriptions},
  author = {Elliott, Desmond and Frank, Stella and Sima'an, Khalil and Specia, Lucia},
  booktitle = {Proceedings of the 5th Workshop on Vision and Language},
  year = {2016},
  pages = {70--74},
}
"""


class Multi30k(tfds.core.GeneratorBasedBuilder):
    """The data set `multi30k`, with the configs `en_de` and `en_fr`.

    The files come from `DownloadConfig(manual_dir=...)` if the user names a folder, otherwise from
    GitHub. Either way, their content must match `multi30k_files.CHECKSUMS`.

    Args:
        splits: Names of the splits to prepare; each must be available. By default all five, except
            those that the manual folder lacks, which are skipped with a warning.
        **kwargs: Arguments of `tfds.core.GeneratorBasedBuilder`: `config`, `data_dir`, `version`.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="en_de", description="English to German."),
        tfds.core.BuilderConfig(name="en_fr", description="English to French."),
    ]

    def __init__(self, *, splits=None, **kwargs):
        self._asked_splits = splits
        self._manual_dir = None
        super().__init__(**kwargs)

    @property
    def languages(self):
        """The source and the target language, e.g. `("en", "de")`."""
        return tuple(self.builder_config.name.split("_"))

    @property
    def url_infos(self):
        """The size and hash of every URL, which TFDS checks its downloads against."""
        url_info = tfds.core.download.checksums.UrlInfo
        return {
            files.URL + name: url_info(size=size, checksum=sha256, filename=name)
            for name, (sha256, size) in files.CHECKSUMS.items()
        }

    def download_and_prepare(self, *, download_config=None, **kwargs):
        # TFDS gives every builder a manual folder; only one that the user named replaces downloads.
        self._manual_dir = download_config.manual_dir if download_config else None
        super().download_and_prepare(download_config=download_config, **kwargs)

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {language: tfds.features.Text() for language in self.languages}
            ),
            supervised_keys=self.languages,
            homepage="https://github.com/multi30k/dataset",
            citation=_CITATION,
            license="For research use; see the homepage and the terms of Flickr30k.",
            # Papers, image lists and other people's outputs refer to sentences by line number.
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        paths = self._manual_files() if self._manual_dir else self._download(dl_manager)
        return {
            split: self._generate_examples(files.read_pairs(pair)) for split, pair in paths.items()
        }

    def _generate_examples(self, pairs):
        for line, pair in enumerate(pairs):
            yield line, dict(zip(self.languages, pair, strict=True))

    def _manual_files(self):
        paths = {}
        for split in self._asked_splits or files.FILE_PREFIXES:
            try:
                paths[split] = files.find_split_files(self._manual_dir, split, self.languages)
            except FileNotFoundError as error:
                if self._asked_splits:
                    raise
                warnings.warn(f"Split {split!r} is skipped. {error}", stacklevel=2)
        if not paths:
            raise FileNotFoundError(
                f"The manual folder '{self._manual_dir}' holds no Multi30k split."
            )
        return paths

    def _download(self, dl_manager):
        names = {
            split: files.split_file_names(split, self.languages)
            for split in self._asked_splits or files.FILE_PREFIXES
        }
        urls = {split: [files.URL + name for name in pair] for split, pair in names.items()}
        try:
            _require_internet(next(iter(urls.values()))[0])
            return dl_manager.download(urls)
        except tfds.core.download.download_manager.NonMatchingChecksumError as error:
            raise ValueError(
                f"Multi30k: a downloaded file is not the pinned one, upstream has changed.\n{error}"
            ) from None
        except (OSError, tfds.download.DownloadError) as error:
            wanted = [name for pair in names.values() for name in pair]
            raise ConnectionError(
                f"Multi30k could not be downloaded for {', '.join(map(repr, names))}: {error}\n"
                f"{files.how_to_get(wanted)}"
            ) from None


def load_multi30k(pair="en-de", split="train", data_dir=None, manual_dir=None):
    """Loads sentence pairs of Multi30k, and prepares them on the first call.

    Args:
        pair: Source and target language: `"en-de"`, `"de-en"`, `"en-fr"` or `"fr-en"`.
        split: `"train"`, `"validation"`, `"test_2016_flickr"`, `"test_2017_flickr"` or
            `"test_2017_mscoco"`.
        data_dir: Folder of prepared data sets. Defaults to that of TensorFlow Datasets.
        manual_dir: Folder with the upstream files, `train.en.gz` and so on, directly or in its
            subfolder `raw`. By default the split is downloaded, unless it is prepared already.

    Returns:
        A `tf.data.Dataset` of `(source, target)`, scalar strings, in the order of the files.

    Raises:
        ValueError: If the pair or split is unknown, or the content of a file is not the pinned one.
        FileNotFoundError: If `manual_dir` lacks the split.
        ConnectionError: If the files cannot be downloaded.

    Example:

    >>> train = load_multi30k("en-de", manual_dir="~/multi30k")  # doctest: +SKIP
    >>> train = train.shuffle(30_000).batch(64)  # doctest: +SKIP
    """
    if pair not in _CONFIG_OF_PAIR:
        raise ValueError(f"Unknown pair={pair!r}; Multi30k has {', '.join(_CONFIG_OF_PAIR)}.")
    if split not in files.FILE_PREFIXES:
        raise ValueError(f"Unknown split={split!r}; Multi30k has {', '.join(files.FILE_PREFIXES)}.")
    builder = _prepared_builder(_CONFIG_OF_PAIR[pair], split, data_dir, manual_dir)
    dataset = builder.as_dataset(split=split, as_supervised=True)
    if pair.startswith("en-"):
        return dataset
    return dataset.map(lambda english, other: (other, english))


def _prepared_builder(config, split, data_dir, manual_dir):
    builder = Multi30k(config=config, data_dir=data_dir)
    if manual_dir is None and split in builder.info.splits:
        return builder
    if manual_dir is not None:  # what is prepared does not stand for what was named
        files.find_split_files(manual_dir, split, builder.languages)
    # TFDS never adds a split to what it has prepared, and a manual folder may hold some splits
    # only. So each split is prepared for itself, in the place of its content.
    root, key = builder.data_dir_root, files.pinned_content(split, builder.languages)
    place = root / "multi30k_splits" / f"{split}-{key}"
    return prepare(
        functools.partial(Multi30k, splits=(split,), config=config, data_dir=place),
        download_dir=root / "downloads",
        download_config=tfds.download.DownloadConfig(manual_dir=manual_dir),
    )


def _require_internet(url):
    # TFDS tries ten times with growing pauses, more than three minutes, before it gives up.
    urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=20).close()
