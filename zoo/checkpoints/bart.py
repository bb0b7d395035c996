"""BART (Lewis et al. 2020) and models of its structure, such as DistilBART."""

from zoo.checkpoints.bart_blocks import TIED, stack_options, table_of_blocks
from zoo.checkpoints.generation import ignore_generation, sampler_of
from zoo.checkpoints.names import Names
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.settings import REGRESSION, settings_of_labels
from zoo.readers.text.reading import read_tokenizer

TABLE = table_of_blocks() | {
    "embedding.table": "model.shared.weight",
    "encoder_entry.place.embeddings": "model.encoder.embed_positions.weight",
    "encoder_entry.norm": "model.encoder.layernorm_embedding",
    "decoder_entry.place.embeddings": "model.decoder.embed_positions.weight",
    "decoder_entry.norm": "model.decoder.layernorm_embedding",
}
OF_TEXTS = {"embedding.bias": "final_logits_bias"}
OF_LABELS = {
    "pooler": "classification_head.dense",
    "output_layer": "classification_head.out_proj",
}
MASK = "<mask>"  # which has no row in BARTs for summaries, such as bart-large-cnn
WITH_LABELS = "BartForSequenceClassification"
CLASSES = "BartForConditionalGeneration", WITH_LABELS


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.require(
        add_bias_logits=False,
        add_final_layer_norm=False,
        chunk_size_feed_forward=0,
        is_decoder=False,
        normalize_before=False,
        normalize_embedding=True,
        static_position_embeddings=False,
        tie_word_embeddings=True,
    )
    settings.ignore("extra_pos_embeddings")
    settings.ignore("force_bos_token_to_be_generated")  # as transformers 5 does
    settings.ignore("prefix", "replacing_rate", "save_step")  # of pipelines and distillation
    options = {
        **stack_options(settings, "gelu"),
        "scaled": settings.take("scale_embedding", default=False),
        "max_length": settings.take("max_position_embeddings"),
        "pad_id": settings.take("pad_token_id", default=1),
    }
    start = settings.take("decoder_start_token_id", default=2)
    if start != settings.take("eos_token_id", default=2):
        raise ValueError(
            f"{settings.path} begins answers with another token than the end token, which is not "
            "implemented."
        )
    if settings.architecture == WITH_LABELS:
        return _plan_of_labels(settings, options | {"begin_id": start})
    options |= {
        "max_source_length": options["max_length"],
        "begin_id": settings.take("bos_token_id", default=0),
        "sampler": sampler_of(settings, folder, counts_start=True),
    }
    return Plan("bart", options, Names(TABLE | OF_TEXTS, "", TIED), settings.take("vocab_size"))


def _plan_of_labels(settings, options):
    """Returns the plan of a classifier, whose head is new if there are new labels."""
    ignore_generation(settings)
    kind = settings.problem_type
    if kind == REGRESSION:
        raise ValueError(f"{settings.path} is of a BART for regression, which is not implemented.")
    options |= {"labels": settings.new_labels or settings.labels, "problem_type": kind}
    names = Names(TABLE | OF_LABELS, "", TIED, unused=("final_logits_bias",))
    if settings.new_labels:
        of_labels = settings_of_labels(settings.new_labels, kind)
        names = names.with_new_head("output_layer", of_labels)
    return Plan("bart_classifier", options, names, settings.take("vocab_size"))


def tokenizer(folder, size):
    """Returns the tokenizer; outputs begin with the end token."""
    return read_tokenizer(folder, size=size, left_out=(MASK,), start="</s>")
