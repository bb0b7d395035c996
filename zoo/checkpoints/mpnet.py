"""MPNet (Song et al. 2020): RoBERTa without segments, plus a relative position bias."""

from zoo.checkpoints.bert import EMBEDDING, stack_options, with_prefix
from zoo.checkpoints.encoders import encoder_plan, head_of
from zoo.checkpoints.names import Names, Turned
from zoo.checkpoints.roberta import HEADS

BLOCK = {
    "blocks.{}.attention.query_projection": "encoder.layer.{}.attention.attn.q",
    "blocks.{}.attention.key_projection": "encoder.layer.{}.attention.attn.k",
    "blocks.{}.attention.value_projection": "encoder.layer.{}.attention.attn.v",
    "blocks.{}.attention.output_projection": "encoder.layer.{}.attention.attn.o",
    "blocks.{}.attention_norm": "encoder.layer.{}.attention.LayerNorm",
    "blocks.{}.feed_forward.inner": "encoder.layer.{}.intermediate.dense",
    "blocks.{}.feed_forward.outer": "encoder.layer.{}.output.dense",
    "blocks.{}.feed_forward_norm": "encoder.layer.{}.output.LayerNorm",
}
TIED = {
    "lm_head.decoder.weight": "mpnet.embeddings.word_embeddings.weight",
    "lm_head.decoder.bias": "lm_head.bias",
}
UNUSED = (r"(mpnet\.)?pooler\.dense\.(weight|bias)",)
OFFSET = 2  # positions begin there, whatever the config says


def plan(settings, folder):
    head = head_of(settings, folder)
    options = stack_options(settings)
    options |= {
        "masked_activation": "gelu",
        "relative_buckets": settings.take("relative_attention_num_buckets", default=32),
        "max_length": settings.take("max_position_embeddings") - OFFSET,
        "position_offset": OFFSET,
        "pooler": "tanh" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    embedding = {path: name for path, name in EMBEDDING.items() if path != "embedding.segments"}
    table = with_prefix("mpnet.", BLOCK, embedding)
    table["by_distance.embeddings"] = Turned("mpnet.encoder.relative_attention_bias.weight")
    names = Names(table, "mpnet.", TIED, UNUSED)
    return encoder_plan(settings, folder, head, options, HEADS, names)
