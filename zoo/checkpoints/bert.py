"""BERT (Devlin et al. 2019) and models of the same structure."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.encoders import encoder_plan, head_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.tensor_files import TensorFiles

BLOCK = {
    "blocks.{}.attention.query_projection": "encoder.layer.{}.attention.self.query",
    "blocks.{}.attention.key_projection": "encoder.layer.{}.attention.self.key",
    "blocks.{}.attention.value_projection": "encoder.layer.{}.attention.self.value",
    "blocks.{}.attention.output_projection": "encoder.layer.{}.attention.output.dense",
    "blocks.{}.attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "blocks.{}.feed_forward.inner": "encoder.layer.{}.intermediate.dense",
    "blocks.{}.feed_forward.outer": "encoder.layer.{}.output.dense",
    "blocks.{}.feed_forward_norm": "encoder.layer.{}.output.LayerNorm",
}
EMBEDDING = {
    "embedding.tokens": "embeddings.word_embeddings.weight",
    "embedding.places": "embeddings.position_embeddings.weight",
    "embedding.segments": "embeddings.token_type_embeddings.weight",
    "embedding.norm": "embeddings.LayerNorm",
}
HEADS = {
    "labels": {"pooler": "bert.pooler.dense", "output_layer": "classifier"},
    "tags": {"output_layer": "classifier"},
    "span": {"output_layer": "qa_outputs"},
    "masked": {
        "transform": "cls.predictions.transform.dense",
        "transform_norm": "cls.predictions.transform.LayerNorm",
        "output_bias": "cls.predictions.bias",
    },
    "embedding": {},
}
TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# The pooler of a model without labels, and the head of next sentence prediction.
UNUSED = r"(bert\.)?pooler\.dense\.(weight|bias)", r"cls\.seq_relationship\.(weight|bias)"


def plan(settings, folder):
    settings.require(is_decoder=False, add_cross_attention=False)
    if not settings.architecture:  # as in older files, such as SciBERT's
        is_masked = HEADS["masked"]["output_bias"] in TensorFiles(folder).shapes
        settings.assume_class("BertForMaskedLM" if is_masked else "BertModel")
    head = head_of(settings, folder)
    options = stack_options(settings) | {
        "num_segments": settings.take("type_vocab_size", default=2),
        "max_length": settings.take("max_position_embeddings"),
        "pooler": "tanh" if head == "labels" else None,
    }
    if head == "embedding":
        options |= {"pooling": "mean"}
    table = with_prefix("bert.")
    names = Names(table, "bert.", TIED, UNUSED)
    return encoder_plan(settings, folder, head, options, HEADS, names)


def stack_options(settings):
    """Returns the options whose settings have the same names in all models with BERT's blocks."""
    settings.require(position_embedding_type="absolute", chunk_size_feed_forward=0)
    return {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        "hidden": settings.take("intermediate_size"),
        "activation": activation(settings, settings.take("hidden_act", default="gelu")),
        "masked_activation": activation(settings, settings.take("hidden_act", default="gelu")),
        "dropout": settings.take("hidden_dropout_prob", default=0.1),
        "attention_dropout": settings.take("attention_probs_dropout_prob", default=0.1),
        "epsilon": settings.take("layer_norm_eps", default=1e-12),
    }


def with_prefix(prefix, block=BLOCK, embedding=EMBEDDING):
    """Returns the names of blocks and embedding with a prefix."""
    return {path: prefix + name for path, name in {**embedding, **block}.items()}
