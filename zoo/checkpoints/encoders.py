"""The common part of the families of text encoders: BERT's structure and its heads."""

import re

from zoo.checkpoints.generation import ignore_generation
from zoo.checkpoints.names import Part
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.sentence_transformers import DENSE, is_embedder, lowers_case, pooled
from zoo.checkpoints.settings import REGRESSION, settings_of_labels
from zoo.readers.text.reading import read_tokenizer

HEADS_OF_CLASSES = {
    "ForSequenceClassification": "labels",
    "ForTokenClassification": "tags",
    "ForQuestionAnswering": "span",
    "ForMaskedLM": "masked",
    "ForPreTraining": "masked",
    "Model": "embedding",
}
ARCHITECTURES_OF_HEADS = {
    "labels": "text_encoder",
    "score": "text_encoder_score",
    "tags": "text_encoder_tags",
    "span": "text_encoder_span",
    "masked": "text_encoder_masked",
    "embedding": "text_encoder_embedding",
}
_OF_CROSS_ENCODERS = "sentence_transformers", "sbert_ce_default_activation_function"
_SUMMARIES = "activation", "last_dropout", "type", "use_proj"  # of models for multiple choice
_CLASS = re.compile(r"(?P<family>[A-Za-z0-9]+?)(?P<head>For[A-Za-z]+|Model)")
POSITION_IDS = r"(.*\.)?(position_ids|token_type_ids)"  # buffers of older versions


def head_of(settings, folder):
    """Returns the kind of head of the model: that of the file, or one for new labels.

    A folder of sentence-transformers has no head, even if its config names one.

    Raises:
        ValueError: If the head is not implemented.
    """
    name = settings.architecture
    found = _CLASS.fullmatch(name)
    if found is None or found["head"] not in HEADS_OF_CLASSES:
        known = ", ".join("…" + each for each in HEADS_OF_CLASSES)
        raise ValueError(
            f"{settings.path} is the config of a {name or 'model of an unknown class'}, which is "
            f"not implemented. Implemented classes: {known}."
        )
    head = HEADS_OF_CLASSES[found["head"]]
    if settings.is_of_answers:
        return "span"
    is_of_tags = settings.is_of_tags(head == "tags")
    if settings.makes_head:
        return "tags" if is_of_tags and settings.new_labels else "labels"
    return "embedding" if is_embedder(folder) else head


def head_without_answers(settings, folder, name):
    """Returns the kind of head of a family that has no question answering in transformers.

    Args:
        settings: `Settings`.
        folder: The folder of the checkpoint.
        name: What the family is called.

    Raises:
        ValueError: If the head is not implemented.
    """
    head = head_of(settings, folder)
    if head == "span":
        raise ValueError(
            f"{settings.path} is the config of {name}, for which question answering is not "
            "implemented: neither is it in transformers."
        )
    return head


def joint_projections(layer, size):
    """Returns the names of the projections of queries, keys and values, in this order one layer.

    Args:
        layer: Name of the layer in the file.
        size: Number of outputs of each.
    """
    found = {}
    for number, role in enumerate(("query", "key", "value")):
        part = Part(layer, -1, number * size, (number + 1) * size)
        found[f"blocks.{{}}.attention.{role}_projection"] = part
    return found


def encoder_plan(settings, folder, head, options, heads, names):
    """Returns the `Plan` of a text encoder.

    Args:
        settings: `Settings`.
        folder: The folder of the checkpoint.
        head: Result of `head_of`; `"labels"` becomes a head for a number if that is the problem.
        options: Options of `TextEncoder` from the family.
        heads: Dictionary from each head to a table of the names of its weights.
        names: `Names` of blocks and embedding.
    """
    layers, fresh = heads[head], ()
    table = names.table | layers
    unused = POSITION_IDS, DENSE, *names.unused
    new_head, new_settings = {}, {}
    of_head = next(name for name, each in HEADS_OF_CLASSES.items() if each == head)
    ignore_generation(settings)
    if head == "masked":
        settings.require(tie_word_embeddings=True)
    settings.ignore("tie_word_embeddings", "padding")  # the latter is of AutoTrain
    settings.ignore(*(f"summary_{what}" for what in _SUMMARIES))
    if head == "labels":
        kind = settings.problem_type
        if kind == REGRESSION:
            _require_raw_scores(settings)
            head = "score"
        else:
            settings.ignore(*_OF_CROSS_ENCODERS)  # which apply to numbers only
            options = {**options, "problem_type": kind}
    if head in ("labels", "tags"):
        options = {**options, "labels": settings.new_labels or settings.labels}
    if settings.makes_head:
        new_head = {"output_layer": table.pop("output_layer")}
        family = _CLASS.fullmatch(settings.architecture)["family"]
        kind = REGRESSION if head == "score" else options.get("problem_type")
        labels = ["LABEL_0"] if head == "score" else settings.new_labels
        new_settings = {"architectures": [family + of_head], **settings_of_labels(labels, kind)}
        fresh = tuple(layers)
    if settings.makes_head or head == "embedding":
        of_heads = {name for each in heads.values() for name in each.values()}
        unused += tuple(rf"{re.escape(name)}(\..*)?" for name in [*of_heads, *names.tied])
    if head == "embedding":
        options, of_dense = pooled(folder, options)
        table |= of_dense
    options = {key: value for key, value in options.items() if value is not None}
    names = names._replace(
        table=table, unused=unused, fresh=fresh, new_head=new_head, new_settings=new_settings
    )
    return Plan(ARCHITECTURES_OF_HEADS[head], options, names, settings.take("vocab_size"))


def reads_as_encoder(plan):
    """Whether a plan is of a text encoder, or of another model that reads texts as they do."""
    return plan.architecture in (*ARCHITECTURES_OF_HEADS.values(), "bart_classifier")


def tokenizer_of(plan, folder):
    """Returns the tokenizer of such a model, and sets the padding token of the plan to its own.

    In transformers the tokenizer says what is padding; `pad_token_id` of `config.json` may differ.

    Args:
        plan: A `Plan`.
        folder: The folder.

    Raises:
        ValueError: If it has no padding token, or texts are not between its start and end token.
    """
    lowercase = plan.architecture == ARCHITECTURES_OF_HEADS["embedding"] and lowers_case(folder)
    tokenizer = read_tokenizer(folder, size=plan.size, lowercase=lowercase)
    template = [item.token_ids for item in tokenizer.templates[0]]
    if template != [(tokenizer.start_id,), (), (tokenizer.end_id,)]:
        raise ValueError(
            f"The post_processor of the tokenizer in {folder} puts the tokens {template} around a "
            "text, () being the text, which is not implemented: it should be a start token in "
            "front and an end token behind."
        )
    if tokenizer.pad_id == tokenizer.end_id:
        raise ValueError(
            f"The tokenizer in {folder} has no padding token of its own. Name it in "
            "tokenizer_config.json as pad_token."
        )
    plan.options["pad_id"] = tokenizer.pad_id
    return tokenizer


def _require_raw_scores(settings):
    """Raises a `ValueError` if a cross-encoder of sentence-transformers transforms its scores."""
    new, old = _OF_CROSS_ENCODERS
    asked = settings.take(old, default=settings.take(new, default={}).get("activation_fn"))
    if asked is not None and not asked.endswith(".Identity"):
        raise ValueError(
            f"{settings.path} applies {asked} to the score, which is not implemented: it should "
            "be torch.nn.modules.linear.Identity."
        )
