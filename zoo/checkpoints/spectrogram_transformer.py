"""The Audio Spectrogram Transformer (Gong et al. 2021), which classifies sounds."""

import keras

from zoo.checkpoints.activations import activation
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.preprocessor import preprocessor_of
from zoo.checkpoints.settings import REGRESSION, Settings, settings_of_labels
from zoo.checkpoints.vit import BLOCK
from zoo.readers.spectrogram_reader import SpectrogramReader

PREFIX = "audio_spectrogram_transformer."
TABLE = {
    f"blocks.{{}}.{ours}": f"{PREFIX}encoder.layer.{{}}.{name}" for ours, name in BLOCK.items()
}
TABLE |= {
    "patches": f"{PREFIX}embeddings.patch_embeddings.projection",
    "class_token": f"{PREFIX}embeddings.cls_token",
    "distillation_token": f"{PREFIX}embeddings.distillation_token",
    "places": f"{PREFIX}embeddings.position_embeddings",
    "norm": f"{PREFIX}layernorm",
    "head_norm": "classifier.layernorm",
    "head": "classifier.dense",
}
CLASS = "ASTForAudioClassification"
LARGEST = 2**20  # bytes


def plan(settings, folder):
    settings.require_class((CLASS,))
    biases = ["query", "key", "value"] if settings.take("qkv_bias", default=True) else []
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        "hidden": settings.take("intermediate_size"),
        "activation": activation(settings, settings.take("hidden_act", default="gelu")),
        "dropout": settings.take("hidden_dropout_prob", default=0.0),
        "attention_dropout": settings.take("attention_probs_dropout_prob", default=0.0),
        "epsilon": settings.take("layer_norm_eps", default=1e-12),
        "use_bias": [*biases, "output", "feed_forward"],
        "patch_size": settings.take("patch_size", default=16),
        "band_stride": settings.take("frequency_stride", default=10),
        "frame_stride": settings.take("time_stride", default=10),
        "reader": _reader(settings, folder),
        "labels": settings.new_labels or settings.labels,
        "problem_type": settings.problem_type,
    }
    if options["problem_type"] == REGRESSION:
        raise ValueError(
            f"{settings.path} is of a regression model of sounds, which is not implemented."
        )
    names = Names(TABLE)
    if settings.new_labels:
        of_labels = settings_of_labels(settings.new_labels, options["problem_type"])
        names = names.with_new_head("head", {"architectures": [CLASS]} | of_labels)
    return Plan("spectrogram_transformer", options, names)


def _reader(settings, folder):
    """Returns the config of the reader.

    Raises:
        ValueError: If the file asks for something that is not implemented; the message names it.
    """
    bands = settings.take("num_mel_bins", default=128)
    frames = settings.take("max_length", default=1024)
    path, content = preprocessor_of(folder, "feature_extractor", LARGEST)
    found = Settings(path, content)
    found.require(
        do_normalize=True, feature_size=1, num_mel_bins=bands, max_length=frames, padding_value=0.0
    )
    found.ignore("feature_extractor_type", "padding_side", "processor_class")
    found.ignore("return_attention_mask")
    reader = SpectrogramReader(
        rate=found.take("sampling_rate", default=16000),
        bands=bands,
        frames=frames,
        mean=found.take("mean", default=-4.2677393),
        deviation=2.0 * found.take("std", default=4.5689974),
    )
    found.require_all_seen()
    return keras.saving.serialize_keras_object(reader)
