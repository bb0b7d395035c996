"""Images and their captions: training data of captioners."""

import reprlib

import tensorflow as tf

from zoo.data.received import received
from zoo.data.seeds import seed_stream
from zoo.readers.images import image_bytes
from zoo.readers.several import as_requests
from zoo.readers.text.texts import are_several, as_text, entries_of

IMAGES_A_STEP = 32
SHUFFLED_PAIRS = 4096
SHUFFLED_IMAGES = 2000
BETWEEN_WORDS = r"[^\p{L}\p{N}'-]+"  # of plain captions


def examples_of_lists(images, captions):
    """Returns a data set of `{"image", "captions"}` from a list of each.

    Args:
        images: Images as `Captioner.caption` takes them.
        captions: For each image a `str` or a list of `str`.
    """
    if not are_several(captions):
        raise ValueError(
            f"The model learns from a list of captions. Received: {reprlib.repr(captions)} of type "
            f"{type(captions).__name__}. Give a list, with one caption or a list of them for each "
            "image."
        )
    images, is_one = as_requests(images, image_bytes, "images", picture_rank=3)
    if is_one:
        raise ValueError(
            "The model learns from a list of images. Received: one image. Put it into a list."
        )
    captions = [list(each) if are_several(each) else [each] for each in entries_of(captions)]
    for position, of_image in enumerate(captions):
        for caption in of_image:
            if not isinstance(caption, str | bytes):
                raise ValueError(
                    "A caption must be a str. Received, for the image at position "
                    f"{position}: {reprlib.repr(caption)} of type {type(caption).__name__}."
                )
    if not images or len(images) != len(captions) or not all(captions):
        raise ValueError(
            "The model learns from images and, for each, one caption or a list of them. "
            f"Received: {len(images)} images and {len(captions)} captions or lists, "
            f"{sum(not each for each in captions)} of them empty."
        )
    captions = tf.ragged.constant([list(map(_string, each)) for each in captions], tf.string)
    return tf.data.Dataset.from_tensor_slices({"image": images, "captions": captions})


def _string(caption):
    return as_text(caption=caption) if isinstance(caption, str) else caption


def annotated(examples, annotate):
    """Returns examples with `annotations` in place of `image`.

    Args:
        examples: Data set of dictionaries with `captions`, and `annotations` or `image`.
        annotate: Function of encoded images `[batch]` that returns annotations `(batch, positions,
            channels)`.
    """
    kind = _kind(examples)
    if kind == "image":
        examples = examples.ragged_batch(IMAGES_A_STEP)
        examples = examples.map(
            lambda example: {
                "annotations": annotate(example["image"]),
                "captions": example["captions"],
            }
        ).unbatch()
    return examples.map(lambda example: (example["annotations"], example["captions"]))


def pictured(examples):
    """Returns examples `(image, captions)`, with images encoded as they are.

    Args:
        examples: Data set of dictionaries with `image` and `captions`.
    """
    if _kind(examples) != "image":
        raise ValueError(
            "A model that reads images by an ImageReader learns from the images. Received: a data "
            "set of `annotations`. Give it `image`, the encoded bytes."
        )
    return examples.map(lambda example: (example["image"], example["captions"]))


def pairs(examples, refine, tokenize, shuffle, seed):
    """Returns a data set of `(annotations, ids)`, one element for each caption.

    Args:
        examples: Data set of `(annotations, captions)`, or of `(image, captions)`.
        refine: Function of a batch of annotations that returns those of the pairs.
        tokenize: Function of captions `[batch]` and a seed that returns ragged ids.
        shuffle: Whether to shuffle captions within a buffer.
        seed: Seed of both.
    """

    def of_images(images, seed):
        annotations, captions = refine(images[0]), _ragged(images[1])
        tokens = tokenize(captions.flat_values, seed)
        rows = tf.data.Dataset.from_tensor_slices((captions.value_rowids(), tokens))
        return rows.map(lambda row, ids: (annotations[row], ids))

    images = examples.ragged_batch(IMAGES_A_STEP)
    found = tf.data.Dataset.zip(images, seed_stream(seed)).flat_map(of_images)
    return found.shuffle(SHUFFLED_PAIRS, seed=seed) if shuffle else found


def images_with_captions(examples, batch_size, shuffle, seed, captions_per_image=None):
    """Returns batches of images, each with its captions.

    Args:
        examples: Data set of `(annotations, captions)`.
        batch_size: Number of images per batch.
        shuffle: Whether to shuffle images within a buffer.
        seed: Seed of everything random.
        captions_per_image: Maximum number of captions for each image, drawn anew in every pass; by
            default all, in order.

    Returns:
        A data set of `(annotations, captions, owners, seed)`: float `(images, ...)`, strings
        `(texts,)`, for each of them the number of its image in the batch, and int32 `(2,)`.
    """
    seeds = seed_stream(seed)  # other ones for each of its two uses
    if shuffle:
        examples = examples.shuffle(SHUFFLED_IMAGES, seed=seed)
    if captions_per_image is not None:

        def draw(example, seed):
            annotations, captions = example
            captions = tf.random.experimental.stateless_shuffle(captions, seed)
            return annotations, captions[:captions_per_image]

        examples = tf.data.Dataset.zip(examples, seeds).map(draw)

    def of_batch(images, seed):
        annotations, captions = images[0], _ragged(images[1])
        return annotations, captions.flat_values, captions.value_rowids(), seed

    return tf.data.Dataset.zip(examples.ragged_batch(batch_size), seeds).map(of_batch)


def _ragged(captions):
    """Returns the captions of a batch of images as ragged, even if each image has as many."""
    is_ragged = isinstance(captions, tf.RaggedTensor)
    return captions if is_ragged else tf.RaggedTensor.from_tensor(captions)


def plain(captions):
    """Returns captions in lower case, without punctuation.

    Example:

    >>> plain(tf.constant(["A girl 's dog , running ."])).numpy().tolist()
    [b"a girl 's dog running"]
    """
    captions = tf.strings.regex_replace(captions, "\0", " ")  # at which `lower` would stop
    captions = tf.strings.lower(captions, encoding="utf-8")
    captions = tf.strings.regex_replace(captions, BETWEEN_WORDS, " ")
    return tf.strings.strip(captions)


def _kind(examples):
    """Returns whether examples hold `"annotations"` or an `"image"`."""
    spec = getattr(examples, "element_spec", None)
    ranks = {}
    if isinstance(spec, dict):
        ranks = {name: (each.dtype.is_floating, each.shape.rank) for name, each in spec.items()}
    if ranks.get("captions") == (False, 1):
        if ranks.get("annotations") == (True, 2):
            return "annotations"
        if ranks.get("image") == (False, 0):
            return "image"
    came = received(examples, "images, captions", pair=None)
    raise ValueError(
        "The model learns from a tf.data.Dataset of dictionaries with `captions`, strings (n,), "
        "and `image`, a string, or `annotations` (positions, channels); or from x=list of images, "
        f"y=list of captions. Received: {came}."
    )
