"""The Flickr8k builder and loader on tiny files, and on the real ones if FLICKR8K_DIR is set."""

import io
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from zoo.data import flickr8k_files
from zoo.data.flickr8k import Flickr8k, load_flickr8k

real_data = pytest.mark.skipif(
    "FLICKR8K_DIR" not in os.environ, reason="FLICKR8K_DIR names no folder of the real files"
)
NAMES = {"train": ["b.jpg", "a.jpg", "c.jpg"], "validation": ["e.jpg", "d.jpg"], "test": ["f.jpg"]}


def captions_of(name):
    return [f"Caption {number} of {name} ü ." for number in range(5)]


def picture(name):
    file = io.BytesIO()
    Image.new("RGB", (6, 4), (ord(name[0]), 0, 0)).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture
def manual(tmp_path):
    """A folder like that of the archives; its captions are in a different order than the lists."""
    folder = tmp_path / "manual"
    write(folder, folder / "Flickr8k_text")
    return folder


def write(folder, text_folder):
    image_folder = folder / "Flicker8k_Dataset"
    for each in (image_folder, text_folder):
        each.mkdir(parents=True, exist_ok=True)
    lines = []
    for split, names in NAMES.items():
        (text_folder / flickr8k_files.IMAGE_LISTS[split]).write_text("\n".join(names) + "\n")
        for name in names:
            (image_folder / name).write_bytes(picture(name))
            lines += [f"{name}#{n}\t{caption} " for n, caption in enumerate(captions_of(name))]
    lines.append("z.jpg.1#0\tOf an image that is in no list .")  # upstream has one, too
    (text_folder / "Flickr8k.token.txt").write_text("\n".join(sorted(lines, reverse=True)) + "\n")


@pytest.mark.parametrize("split", NAMES)
def test_images_come_in_the_order_of_the_list_with_their_captions(tmp_path, manual, split):
    dataset = load_flickr8k(split, manual, tmp_path / "data")
    assert dataset.element_spec == {
        "name": tf.TensorSpec((), tf.string),
        "image": tf.TensorSpec((), tf.string),
        "captions": tf.TensorSpec((5,), tf.string),
    }
    assert dataset.cardinality() == len(NAMES[split])
    for example, name in zip(dataset.as_numpy_iterator(), NAMES[split], strict=True):
        assert example["name"].decode() == name
        assert example["image"] == picture(name)
        assert [caption.decode() for caption in example["captions"]] == captions_of(name)


def test_texts_may_lie_beside_the_images(tmp_path):
    write(tmp_path / "manual", tmp_path / "manual")
    assert len(load_flickr8k("train", str(tmp_path / "manual"), tmp_path / "data")) == 3


def test_a_prepared_split_needs_no_files(tmp_path, manual):
    first = [each["name"] for each in load_flickr8k("train", manual, tmp_path).as_numpy_iterator()]
    shutil.rmtree(manual)
    again = load_flickr8k("train", data_dir=tmp_path).as_numpy_iterator()
    assert [each["name"] for each in again] == first


def test_the_folder_that_is_named_is_read_whatever_is_prepared(tmp_path, manual):
    data, changed = tmp_path / "data", tmp_path / "changed"

    def first_caption(*folder):
        (first, *_) = load_flickr8k("train", *folder, data_dir=data).as_numpy_iterator()
        return first["captions"][0].decode()

    assert first_caption(manual) == captions_of("b.jpg")[0]
    shutil.copytree(manual, changed)
    path = changed / "Flickr8k_text" / "Flickr8k.token.txt"
    path.write_text(path.read_text().replace(captions_of("b.jpg")[0], "Another ."))
    assert first_caption(changed) == "Another ."
    assert first_caption(manual) == captions_of("b.jpg")[0]
    with pytest.raises(ValueError, match="prepared from 2 different folders.*--data-dir"):
        load_flickr8k("train", data_dir=data)
    with pytest.raises(FileNotFoundError, match="'train' is not in the folder"):
        load_flickr8k("train", tmp_path, data)


def test_tfds_load_decodes_images_and_skips_splits_without_a_list(tmp_path, manual):
    (manual / "Flickr8k_text" / "Flickr_8k.testImages.txt").unlink()
    config = tfds.download.DownloadConfig(manual_dir=manual)
    with pytest.warns(UserWarning, match="Split 'test' is skipped.*Flickr_8k.testImages.txt is"):
        splits, info = tfds.load(
            "flickr8k",
            data_dir=tmp_path / "data",
            download_and_prepare_kwargs={"download_config": config},
            with_info=True,
        )
    assert set(splits) == {"train", "validation"}
    assert info.supervised_keys == ("image", "captions")
    assert "non-commercial" in info.description + str(info.redistribution_info)
    (first, *_) = splits["train"].as_numpy_iterator()
    assert first["image"].shape == (4, 6, 3)
    assert abs(int(np.mean(first["image"][..., 0])) - ord("b")) < 3
    with pytest.raises(FileNotFoundError, match="'test' is not in the folder"):
        load_flickr8k("test", manual, tmp_path / "data")


def test_no_folder_says_how_to_get_one(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        load_flickr8k("train", data_dir=tmp_path)
    message = str(error.value)
    assert "no folder was named" in message
    assert "https://forms.illinois.edu/sec/1713398" in message
    assert "Flicker8k_Dataset/*.jpg" in message
    assert "manual_dir=" in message
    assert "non-commercial" in message
    assert "Hodosh" in message


def test_a_missing_list_names_files_and_places(tmp_path, manual):
    (manual / "Flickr8k_text" / "Flickr_8k.devImages.txt").unlink()
    with pytest.raises(FileNotFoundError) as error:
        load_flickr8k("validation", manual, tmp_path / "data")
    assert (
        f"Flickr_8k.devImages.txt is neither in '{manual / 'Flickr8k_text'}' nor in '{manual}'"
        in str(error.value)
    )
    assert "manual_dir=" in str(error.value)


def test_a_folder_that_does_not_exist_is_called_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere', which does not exist"):
        load_flickr8k("train", tmp_path / "nowhere", tmp_path / "data")


def test_a_folder_without_any_split_is_an_error(tmp_path):
    config = tfds.download.DownloadConfig(manual_dir=tmp_path)
    with (
        pytest.warns(UserWarning, match="is skipped"),
        pytest.raises(FileNotFoundError, match="holds no Flickr8k split"),
    ):
        Flickr8k(data_dir=tmp_path / "data").download_and_prepare(download_config=config)


def test_missing_images_are_counted_and_named(tmp_path, manual):
    for name in ("a.jpg", "c.jpg"):
        (manual / "Flicker8k_Dataset" / name).unlink()
    with pytest.raises(FileNotFoundError, match=r"2 of its 3 images are not in .*: a.jpg, c.jpg\."):
        load_flickr8k("train", manual, tmp_path / "data")


@pytest.mark.parametrize("damage", ["missing", "twice", "empty"])
def test_incomplete_captions_are_counted_and_named(tmp_path, manual, damage):
    path = manual / "Flickr8k_text" / "Flickr8k.token.txt"
    line = f"a.jpg#3\t{captions_of('a.jpg')[3]}"
    replacement = {"missing": "", "twice": "a.jpg#2\tAgain .", "empty": "a.jpg#3\t"}[damage]
    path.write_text(path.read_text().replace(line, replacement))
    with pytest.raises(ValueError, match=r"1 of its 3 images do not have the 5 captions.*a.jpg"):
        load_flickr8k("train", manual, tmp_path / "data")


def test_an_empty_list_is_an_error(tmp_path, manual):
    (manual / "Flickr8k_text" / "Flickr_8k.trainImages.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"Flickr_8k.trainImages.txt .* names no image"):
        load_flickr8k("train", manual, tmp_path / "data")


def test_unknown_splits_list_the_known_ones():
    with pytest.raises(ValueError, match="Unknown split 'dev'.*Known: train, validation, test"):
        load_flickr8k("dev")


@real_data
@pytest.mark.parametrize(("split", "size"), [("train", 6_000), ("validation", 1_000)])
def test_real_splits_have_their_published_sizes(tmp_path, split, size):
    dataset = load_flickr8k(split, os.environ["FLICKR8K_DIR"], tmp_path)
    assert dataset.cardinality() == size
    names = [name.decode() for name in dataset.map(lambda each: each["name"]).as_numpy_iterator()]
    file = flickr8k_files.IMAGE_LISTS[split]
    with open(os.path.join(os.environ["FLICKR8K_DIR"], "Flickr8k_text", file)) as lines:
        assert names == lines.read().split()
