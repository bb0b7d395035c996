"""DeBERTa, versions 2 and 3 (He et al. 2021): BERT with disentangled attention.

The dropout of the vectors of distances in training is not implemented.
"""

import keras

from keras_attention.positions import Disentangled, DistanceEmbedding
from zoo.checkpoints import bert
from zoo.checkpoints.encoders import encoder_plan, head_of
from zoo.checkpoints.names import Names

BLOCK = bert.BLOCK | {
    "blocks.{}.attention.query_projection": "encoder.layer.{}.attention.self.query_proj",
    "blocks.{}.attention.key_projection": "encoder.layer.{}.attention.self.key_proj",
    "blocks.{}.attention.value_projection": "encoder.layer.{}.attention.self.value_proj",
    "distances.embeddings": "encoder.rel_embeddings.weight",
    "distances.norm": "encoder.LayerNorm",
}
HEADS = bert.HEADS | {"labels": {"pooler": "pooler.dense", "output_layer": "classifier"}}
TIED = {
    "cls.predictions.decoder.weight": "deberta.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
UNUSED = (r"(lm|mask)_predictions\..*",)  # the heads of the pretraining of version 3


def plan(settings, folder):
    settings.assume_class("DebertaV2Model")  # Microsoft's files name none
    head = head_of(settings, folder)
    for name, expected in {
        "relative_attention": True,
        "share_att_key": True,
        "position_biased_input": False,
    }.items():
        settings.take(name)  # which must be there, since the default is the other value
        settings.require(**{name: expected})
    options = bert.stack_options(settings)
    settings.require(
        legacy=True,  # the kind of head for masked tokens
        conv_kernel_size=0,
        embedding_size=options["size"],
        pooler_hidden_size=options["size"],
        attention_head_size=options["size"] // options["num_heads"],
        pooler_hidden_act="gelu",
    )
    settings.ignore("conv_act", "cls_dropout", "pooler_dropout", "vocab_type")
    length = settings.take("max_position_embeddings")
    options |= {
        "max_length": length,
        "num_segments": settings.take("type_vocab_size", default=0),
        "position": _position(settings, length, options["epsilon"]),
        "pooler": "gelu" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    table = bert.with_prefix("deberta.", BLOCK)
    del table["embedding.places"]
    if not options["num_segments"]:
        del table["embedding.segments"]
    if settings.take("norm_rel_ebd", default="none") == "none":
        del table["distances.norm"]
    names = Names(table, "deberta.", TIED, UNUSED)
    return encoder_plan(settings, folder, head, options, HEADS, names)


def _position(settings, length, epsilon):
    """Returns the config of the position, whose vectors all blocks share."""
    terms = settings.take("pos_att_type")
    terms = terms.split("|") if isinstance(terms, str) else terms
    if sorted(term.strip() for term in terms) != ["c2p", "p2c"]:
        raise ValueError(
            f"{settings.path} says pos_att_type={terms!r}, which is not implemented: it should be "
            "'p2c|c2p'."
        )
    norm = settings.take("norm_rel_ebd", default="none")
    if norm not in ("none", "layer_norm"):
        raise ValueError(
            f"{settings.path} says norm_rel_ebd={norm!r}, which is not implemented. Implemented: "
            "none, layer_norm."
        )
    longest = settings.take("max_relative_positions", default=-1)
    one_side = settings.take("position_buckets", default=-1)
    embedding = DistanceEmbedding(
        longest if longest > 0 else length,
        2 * one_side if one_side > 0 else None,
        epsilon if norm == "layer_norm" else None,
    )
    return keras.saving.serialize_keras_object(Disentangled(embedding))
