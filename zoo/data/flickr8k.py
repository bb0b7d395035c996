"""Flickr8k as a TensorFlow Datasets builder, and `load_flickr8k`."""

import functools
import warnings

from keras_attention.errors import unknown_name
from zoo.data import flickr8k_files as files
from zoo.data.prepared import prepare, tfds

_DESCRIPTION = """\
Flickr8k: photographs from Flickr, each described by five people in one English sentence. One image
an example, in the order of the published lists of the splits.
"""

_CITATION = """\
@article{hodosh-etal-2013-flickr8k,
  title = {Framing Image Description as a Ranking Task: Data, Models and Evaluation Metrics},
  author = {Hodosh, Micah and Young, Peter and Hockenmaier, Julia},
  journal = {Journal of Artificial Intelligence Research},
  volume = {47},
  pages = {853--899},
  year = {2013},
}
"""


class Flickr8k(tfds.core.GeneratorBasedBuilder):
    """The data set `flickr8k`: `name`, `image` and five `captions`.

    The files come from `DownloadConfig(manual_dir=...)`: they are only available to researchers on
    request, so nothing is downloaded.

    Args:
        splits: Names of the splits to prepare; each must be available. By default all three, except
            those whose list the folder lacks, which are skipped with a warning.
        **kwargs: Arguments of `tfds.core.GeneratorBasedBuilder`: `data_dir`, `version`.
    """

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = files.HOW_TO_GET

    def __init__(self, *, splits=None, **kwargs):
        self._asked_splits = splits
        self._manual_dir = None
        super().__init__(**kwargs)

    @property
    def url_infos(self):
        """Sizes and hashes of downloads: none, since nothing is downloaded."""
        return {}

    def download_and_prepare(self, *, download_config=None, **kwargs):
        # TFDS would stop at a folder that is not there before it comes to what is missing in it.
        self._manual_dir = download_config.manual_dir if download_config else None
        super().download_and_prepare(download_config=download_config, **kwargs)

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {
                    "name": tfds.features.Text(),
                    "image": tfds.features.Image(encoding_format="jpeg"),
                    "captions": tfds.features.Sequence(
                        tfds.features.Text(), length=files.CAPTIONS_PER_IMAGE
                    ),
                }
            ),
            supervised_keys=("image", "captions"),
            homepage="https://forms.illinois.edu/sec/1713398",
            citation=_CITATION,
            license="For non-commercial research and education; cite Hodosh et al. 2013.",
            # Papers and other people's outputs refer to images by their place in the list.
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        del dl_manager
        if self._manual_dir is None:
            raise FileNotFoundError(files.NO_FOLDER)
        return {
            split: self._generate_examples(examples) for split, examples in self._found().items()
        }

    def _generate_examples(self, examples):
        for number, (path, captions) in enumerate(examples):
            yield number, {"name": path.name, "image": path, "captions": captions}

    def _found(self):
        found = {}
        for split in self._asked_splits or files.IMAGE_LISTS:
            try:
                found[split] = files.find_split(self._manual_dir, split)
            except FileNotFoundError as error:
                if self._asked_splits:
                    raise
                warnings.warn(f"Split {split!r} is skipped. {error}", stacklevel=2)
        if not found:
            raise FileNotFoundError(
                f"The manual folder '{self._manual_dir}' holds no Flickr8k split."
            )
        return found


def load_flickr8k(split="train", manual_dir=None, data_dir=None):
    """Loads images and captions of Flickr8k, and prepares them on the first call.

    Args:
        split: `"train"` (6,000 images), `"validation"` (1,000, the list "dev") or `"test"` (1,000).
        manual_dir: Folder with the unpacked archives: `Flicker8k_Dataset/*.jpg` and
            `Flickr8k_text/*.txt`. By default, uses what was prepared from such a folder before.
        data_dir: Folder of prepared data sets. Defaults to that of TensorFlow Datasets.

    Returns:
        A `tf.data.Dataset` of `{"name", "image", "captions"}`, in the order of the list: the name
        of the file, its unchanged bytes (JPEG), and five strings.

    Raises:
        ValueError: If the split is unknown, captions of images are missing, or no folder is named
            although the split was prepared from different folders.
        FileNotFoundError: If `manual_dir` lacks the split, or none is named and nothing is
            prepared; the message says how to get it.

    Example:

    >>> train = load_flickr8k("train", "~/flickr8k")  # doctest: +SKIP
    >>> next(iter(train))["captions"][0]  # doctest: +SKIP
    """
    if split not in files.IMAGE_LISTS:
        raise ValueError(unknown_name("split", split, files.IMAGE_LISTS))
    return _prepared_builder(split, data_dir, manual_dir).as_dataset(
        split=split, decoders={"image": tfds.decode.SkipDecoding()}
    )


def _prepared_builder(split, data_dir, manual_dir):
    builder = Flickr8k(data_dir=data_dir)
    root = builder.data_dir_root
    # TFDS never adds a split to what it has prepared, and a manual folder may hold some splits
    # only. So each split is prepared for itself, in the place of its content.
    places = root / "flickr8k_splits" / split
    if manual_dir is None:
        return builder if split in builder.info.splits else _only_builder(split, places)
    content = files.content(files.find_split(manual_dir, split))
    return prepare(
        functools.partial(Flickr8k, splits=(split,), data_dir=places / content),
        download_dir=root / "downloads",
        download_config=tfds.download.DownloadConfig(manual_dir=manual_dir),
    )


def _only_builder(split, places):
    """Returns the builder of a split that was prepared from only one content."""
    contents = sorted(places.iterdir()) if places.exists() else []
    builders = [Flickr8k(splits=(split,), data_dir=place) for place in contents]
    builders = [builder for builder in builders if split in builder.info.splits]
    if not builders:
        raise FileNotFoundError(files.NO_FOLDER)
    if len(builders) > 1:
        raise ValueError(
            f"Flickr8k split {split!r} was prepared from {len(builders)} different folders. Name "
            "the one to read: --data-dir '<folder>', or manual_dir='<folder>' in Python."
        )
    return builders[0]
