"""RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT with an offset in its positions."""

from zoo.checkpoints.bert import stack_options, with_prefix
from zoo.checkpoints.encoders import encoder_plan, head_of
from zoo.checkpoints.names import Names

HEADS = {
    "labels": {"pooler": "classifier.dense", "output_layer": "classifier.out_proj"},
    "tags": {"output_layer": "classifier"},
    "span": {"output_layer": "qa_outputs"},
    "masked": {
        "transform": "lm_head.dense",
        "transform_norm": "lm_head.layer_norm",
        "output_bias": "lm_head.bias",
    },
    "embedding": {},
}
TIED = {
    "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
    "lm_head.decoder.bias": "lm_head.bias",
}
UNUSED = (r"(roberta\.)?pooler\.dense\.(weight|bias)",)


def plan(settings, folder):
    settings.require(is_decoder=False, add_cross_attention=False)
    head = head_of(settings, folder)
    options = stack_options(settings)
    offset = settings.take("pad_token_id", default=1) + 1
    options |= {
        "masked_activation": "gelu",
        "num_segments": settings.take("type_vocab_size", default=1),
        "max_length": settings.take("max_position_embeddings") - offset,
        "position_offset": offset,
        "pooler": "tanh" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    table = with_prefix("roberta.")
    names = Names(table, "roberta.", TIED, UNUSED)
    return encoder_plan(settings, folder, head, options, HEADS, names)
