"""A `Matcher` as files for ONNX Runtime and LiteRT: a graph of images and one of texts."""

import tensorflow as tf

from zoo import serving
from zoo.data.captions import BETWEEN_WORDS
from zoo.readers.image_reader import ImageReader
from zoo.readers.text.library import bounded


def write_matching_graphs(path, file_format, matcher):
    """Writes the graphs `image` and `text`, which return unit vectors as `embedding`.

    `image` takes `zoo.serving.pixel_inputs`, described by `preprocessor_config.json`; `text` takes
    `zoo.serving.token_inputs`, produced by `tokenizer.json`. `config.json` has the `logit_scale`,
    by which `Matcher.classify` multiplies cosines before the softmax; for a SigLIP also the
    `logit_bias`, which it adds before the sigmoid.

    Args:
        path, file_format: As for `zoo.serving.write_graphs`.
        matcher: The `Matcher`.

    Returns:
        `pathlib.Path` of the export.
    """
    core, config, backbone = matcher.core, matcher.core.config, matcher.backbone
    # A backbone takes pixels from 0 to 255.
    reader = matcher.reader or ImageReader(backbone.image_size, mean=0.0, deviation=1 / 255)

    def image(pixels):
        seen = pixels if backbone is None else backbone(pixels)
        return {"embedding": core.embed_images(seen, training=False)}

    def text(token_ids, attention_mask):
        ids = tf.where(attention_mask > 0, token_ids, config.pad_id)
        if core.is_padded:
            missing = config.max_length - tf.shape(ids)[1]
            ids = tf.pad(ids, [[0, 0], [0, missing]], constant_values=config.pad_id)
        return {"embedding": core.embed_texts(ids, training=False)}

    graphs = {
        "image": (image, serving.pixel_inputs(reader)),
        "text": (text, serving.token_inputs()),
    }
    contents = {
        serving.PROCESSOR: reader.processor,
        serving.CONFIG: core.settings_of_logits(),
    }
    encoders = serving.Encoders(graphs, config.max_length)
    library = library_of(matcher)
    return serving.write_graphs(path, file_format, core, encoders, library, contents)


def library_of(matcher):
    """Returns the `tokenizers.Tokenizer` that tokenizes texts as a `Matcher` does."""
    config = matcher.core.config
    return bounded(
        matcher.tokenizer.to_library(),
        matcher.tokenizer.start_id if matcher.core.has_start else None,
        config.end_id,
        config.max_length,
        BETWEEN_WORDS if matcher.plain_texts else None,
    )
