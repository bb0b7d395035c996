"""DistilBERT (Sanh et al. 2019): BERT without segments or pooler."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.bert import with_prefix
from zoo.checkpoints.encoders import encoder_plan, head_of
from zoo.checkpoints.names import Names

BLOCK = {
    "blocks.{}.attention.query_projection": "transformer.layer.{}.attention.q_lin",
    "blocks.{}.attention.key_projection": "transformer.layer.{}.attention.k_lin",
    "blocks.{}.attention.value_projection": "transformer.layer.{}.attention.v_lin",
    "blocks.{}.attention.output_projection": "transformer.layer.{}.attention.out_lin",
    "blocks.{}.attention_norm": "transformer.layer.{}.sa_layer_norm",
    "blocks.{}.feed_forward.inner": "transformer.layer.{}.ffn.lin1",
    "blocks.{}.feed_forward.outer": "transformer.layer.{}.ffn.lin2",
    "blocks.{}.feed_forward_norm": "transformer.layer.{}.output_layer_norm",
}
EMBEDDING = {
    "embedding.tokens": "embeddings.word_embeddings.weight",
    "embedding.places": "embeddings.position_embeddings.weight",
    "embedding.norm": "embeddings.LayerNorm",
}
HEADS = {
    "labels": {"pooler": "pre_classifier", "output_layer": "classifier"},
    "tags": {"output_layer": "classifier"},
    "span": {"output_layer": "qa_outputs"},
    "masked": {
        "transform": "vocab_transform",
        "transform_norm": "vocab_layer_norm",
        "output_bias": "vocab_projector.bias",
    },
    "embedding": {},
}
TIED = {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}


def plan(settings, folder):
    settings.require(chunk_size_feed_forward=0, tie_weights_=True)
    settings.ignore("sinusoidal_pos_embds", "seq_classif_dropout", "qa_dropout")
    head = head_of(settings, folder)
    name = activation(settings, settings.take("activation", default="gelu"))
    options = {
        "num_layers": settings.take("n_layers"),
        "size": settings.take("dim"),
        "num_heads": settings.take("n_heads"),
        "hidden": settings.take("hidden_dim"),
        "activation": name,
        "masked_activation": name,
        "dropout": settings.take("dropout", default=0.1),
        "attention_dropout": settings.take("attention_dropout", default=0.1),
        "max_length": settings.take("max_position_embeddings"),
        "pooler": "relu" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    table = with_prefix("distilbert.", BLOCK, EMBEDDING)
    names = Names(table, "distilbert.", TIED)
    return encoder_plan(settings, folder, head, options, HEADS, names)
