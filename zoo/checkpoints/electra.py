"""ELECTRA (Clark et al. 2020): BERT with a smaller embedding, its generator included."""

from zoo.checkpoints.bert import EMBEDDING, stack_options, with_prefix
from zoo.checkpoints.encoders import encoder_plan, head_of
from zoo.checkpoints.names import Names

HEADS = {
    "labels": {"pooler": "classifier.dense", "output_layer": "classifier.out_proj"},
    "tags": {"output_layer": "classifier"},
    "span": {"output_layer": "qa_outputs"},
    "masked": {
        "transform": "generator_predictions.dense",
        "transform_norm": "generator_predictions.LayerNorm",
        "output_bias": "generator_lm_head.bias",
    },
    "embedding": {},
}
UNUSED = (r"discriminator_predictions\..*",)  # without its head, a discriminator is an encoder
TIED = {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"}


def plan(settings, folder):
    settings.require(
        is_decoder=False,
        add_cross_attention=False,
    )
    settings.ignore("generator_size")
    head = head_of(settings, folder)
    if head == "masked" and settings.architecture.endswith("ForPreTraining"):
        raise ValueError(
            f"{settings.path} is the config of ELECTRA's discriminator, whose head predicts which "
            "tokens were replaced. It is not implemented. For a new head, pass labels=[...]."
        )
    options = stack_options(settings)
    embedding_size = settings.take("embedding_size", default=options["size"])
    options |= {
        "masked_activation": "gelu",
        "embedding_size": embedding_size,
        "num_segments": settings.take("type_vocab_size", default=2),
        "max_length": settings.take("max_position_embeddings"),
        "pooler": "gelu" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    embedding = dict(EMBEDDING)
    if embedding_size != options["size"]:
        embedding["embedding.project"] = "embeddings_project"
    table = with_prefix("electra.", embedding=embedding)
    names = Names(table, "electra.", TIED, UNUSED)
    return encoder_plan(settings, folder, head, options, HEADS, names)
