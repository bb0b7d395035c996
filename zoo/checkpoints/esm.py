"""ESM-1b and ESM-2 (Lin et al. 2023): text encoders of proteins, whose tokens are amino acids."""

import re

import keras
import numpy as np

from keras_attention.positions import Rotary
from keras_attention.positions.scaling import frequencies_of
from zoo.checkpoints.bert import BLOCK, EMBEDDING, with_prefix
from zoo.checkpoints.encoders import encoder_plan, head_without_answers
from zoo.checkpoints.names import Names
from zoo.checkpoints.tensor_files import TensorFiles
from zoo.models.rounded_frequencies import RoundedFrequencies

PREFIX = "esm."
TABLE = {
    **with_prefix(
        PREFIX,
        BLOCK
        | {
            "blocks.{}.attention_norm": "encoder.layer.{}.attention.LayerNorm",
            "blocks.{}.feed_forward_norm": "encoder.layer.{}.LayerNorm",
        },
        {path: EMBEDDING[path] for path in ("embedding.tokens", "embedding.places")},
    ),
    "embedding.norm": PREFIX + "embeddings.layer_norm",
    "norm": PREFIX + "encoder.emb_layer_norm_after",
}
HEADS = {
    "labels": {"pooler": "classifier.dense", "output_layer": "classifier.out_proj"},
    "tags": {"output_layer": "classifier"},
    "masked": {
        "transform": "lm_head.dense",
        "transform_norm": "lm_head.layer_norm",
        "output_bias": "lm_head.bias",
    },
    "embedding": {},
}
TIED = {"lm_head.decoder.weight": PREFIX + "embeddings.word_embeddings.weight"}
# transformers 5 writes one tensor for all layers, and an asterisk for their numbers.
FREQUENCIES = r"(esm\.)?(encoder\.layer\.(\d+|\*)\.attention\.self\.)?rotary_embeddings\.inv_freq"
CONTACTS = tuple(f"{PREFIX}contact_head.regression.{name}" for name in ("weight", "bias"))
UNUSED = (
    r"(esm\.)?pooler\.dense\.(weight|bias)",
    r"(esm\.)?contact_head\.regression\.(weight|bias)",
)


def plan(settings, folder):
    settings.require(
        add_cross_attention=False, hidden_act="gelu", is_decoder=False, is_folding_model=False
    )
    settings.ignore("esmfold_config", "vocab_list")  # of models that fold
    head = head_without_answers(settings, folder, "an ESM")
    offset = settings.take("pad_token_id", default=1) + 1
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        "hidden": settings.take("intermediate_size"),
        "normalize": "pre",
        "activation": "gelu",
        "masked_activation": "gelu",
        "dropout": settings.take("hidden_dropout_prob", default=0.1),
        "attention_dropout": settings.take("attention_probs_dropout_prob", default=0.1),
        "epsilon": settings.take("layer_norm_eps", default=1e-12),
        "embedding_norm": settings.take("emb_layer_norm_before", default=False),
        "max_length": settings.take("max_position_embeddings") - offset,
        "pooler": "tanh" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    mask_id = settings.take("mask_token_id", default=None)
    if settings.take("token_dropout", default=False):
        options["mask_id"] = mask_id
    table, unused, carried = TABLE, UNUSED, CONTACTS
    theta = settings.take("rope_theta", default=10_000.0)
    kind = settings.take("position_embedding_type", default="absolute")
    if kind == "absolute":
        options["position_offset"] = offset
    elif kind == "rotary":
        files = TensorFiles(folder)
        stored = {
            name: files.read(name) for name in files.shapes if re.fullmatch(FREQUENCIES, name)
        }
        size = options["size"] // options["num_heads"]
        options["position"] = _rotary(settings, theta, size, stored)
        carried += tuple(PREFIX + name.removeprefix(PREFIX) for name in stored)
        table = {path: name for path, name in TABLE.items() if path != "embedding.places"}
        unused += FREQUENCIES, r"(esm\.)?embeddings\.position_embeddings\.weight"
    else:
        raise ValueError(
            f"{settings.path} says position_embedding_type={kind!r}, which is not implemented. "
            "Implemented: absolute, rotary."
        )
    names = Names(table, PREFIX, TIED, unused, carried=carried)
    return encoder_plan(settings, folder, head, options, HEADS, names)


def _rotary(settings, theta, size, stored):
    """Returns the config of rotary positions.

    ESM-2 was trained in half precision, and its files hold frequencies that are rounded to it.

    Args:
        settings: `Settings`.
        theta: Their wavelength.
        size: Size of a head.
        stored: Dictionary of the frequencies of the file, which may be empty.
    """
    exact, rounding = frequencies_of(size, theta), RoundedFrequencies()
    for scaling, own in ((None, exact), (rounding, rounding.frequencies(size, theta, None))):
        if all(np.allclose(found, own, rtol=1e-6, atol=0) for found in stored.values()):
            rotary = Rotary(theta, pairs="halves", scaling=scaling)
            return keras.saving.serialize_keras_object(rotary)
    raise ValueError(
        f"The frequencies of rotary positions of {settings.path.parent}, {next(iter(stored))}, are "
        f"neither those of rope_theta={theta} nor these in half precision."
    )
