"""ALBERT (Lan et al. 2020): BERT with a single block, applied again and again, and a smaller
embedding."""

from zoo.checkpoints.bert import EMBEDDING, stack_options, with_prefix
from zoo.checkpoints.encoders import encoder_plan, head_of
from zoo.checkpoints.names import Names

LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
BLOCK = {
    "blocks.0.attention.query_projection": f"{LAYER}.attention.query",
    "blocks.0.attention.key_projection": f"{LAYER}.attention.key",
    "blocks.0.attention.value_projection": f"{LAYER}.attention.value",
    "blocks.0.attention.output_projection": f"{LAYER}.attention.dense",
    "blocks.0.attention_norm": f"{LAYER}.attention.LayerNorm",
    "blocks.0.feed_forward.inner": f"{LAYER}.ffn",
    "blocks.0.feed_forward.outer": f"{LAYER}.ffn_output",
    "blocks.0.feed_forward_norm": f"{LAYER}.full_layer_layer_norm",
}
PROJECTION = {"embedding.project": "encoder.embedding_hidden_mapping_in"}
HEADS = {
    "labels": {"pooler": "albert.pooler", "output_layer": "classifier"},
    "tags": {"output_layer": "classifier"},
    "span": {"output_layer": "qa_outputs"},
    "masked": {
        "transform": "predictions.dense",
        "transform_norm": "predictions.LayerNorm",
        "output_bias": "predictions.bias",
    },
    "embedding": {},
}
TIED = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}
# The pooler of a model without labels, and the head that predicts the order of sentences.
UNUSED = r"(albert\.)?pooler\.(weight|bias)", r"sop_classifier\.classifier\.(weight|bias)"


def plan(settings, folder):
    settings.require(num_hidden_groups=1, inner_group_num=1)
    settings.ignore("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor")
    settings.ignore("is_decoder", "classifier_dropout_prob")
    head = head_of(settings, folder)
    options = stack_options(settings)
    embedding_size = settings.take("embedding_size", default=128)
    if embedding_size == options["size"]:
        raise ValueError(
            f"{settings.path} has embedding_size={embedding_size}, the hidden_size, which is not "
            "implemented: the embedding of an ALBERT should be smaller."
        )
    options |= {
        "shared_block": True,
        "embedding_size": embedding_size,
        "num_segments": settings.take("type_vocab_size", default=2),
        "max_length": settings.take("max_position_embeddings"),
        "pooler": "tanh" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    table = with_prefix("albert.", BLOCK, EMBEDDING | PROJECTION)
    names = Names(table, "albert.", TIED, UNUSED)
    return encoder_plan(settings, folder, head, options, HEADS, names)
