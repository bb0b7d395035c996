"""Pairs of texts: training data of translators and embedders."""

import reprlib
import warnings

import tensorflow as tf

from zoo.data.received import received
from zoo.readers.text.texts import as_texts, refuse_paths

LOOKED_AT = 1000  # texts of a list, for characters that the tokenizer does not know


def pairs_of_lists(sources, targets):
    """Returns a data set of pairs from a list of sources and one of their targets."""
    for texts in (sources, targets):
        refuse_paths(texts)
    if isinstance(sources, str) or isinstance(targets, str):
        raise ValueError(
            "The model learns from pairs of texts, given as two lists. Received: a str. Put it "
            "into a list."
        )
    return _zipped(_texts(sources, "sources"), _texts(targets, "targets"), "texts")


def pairs_of_images(sources, targets):
    """Returns a data set of pairs from two lists of encoded images."""
    return _zipped(sources, targets, "images")


def _zipped(sources, targets, kind):
    if not sources or len(sources) != len(targets):
        are_empty = not sources and not targets
        received = f"{len(sources)} sources and {len(targets)} targets"
        raise ValueError(
            f"The model learns from pairs of {kind}, a target for each source. Received: "
            f"{'two empty lists' if are_empty else received}."
        )
    return tf.data.Dataset.from_tensor_slices((sources, targets))


def _texts(texts, what):
    try:
        return as_texts(texts)[0]
    except ValueError as error:
        raise ValueError(f"The model learns from pairs of texts. Of the {what}: {error}") from None


def spoken_texts(examples, tokenizer=None):
    """Returns a data set of (sound, text).

    Args:
        examples: A pair of a list of the bytes of sounds and a list of their texts, or such a data
            set.
        tokenizer: The tokenizer of the texts, to warn of characters in a list that it does not
            know.

    Raises:
        ValueError: If `examples` has another form.
    """
    if isinstance(examples, tuple):
        sounds, texts = examples
        try:
            texts, is_one = as_texts(texts)
        except ValueError as error:
            raise ValueError(f"The model learns from sounds and their texts. {error}") from None
        if is_one or not texts or len(texts) != len(sounds):
            raise ValueError(
                "The model learns from sounds and their texts, a list of `str` with one for each. "
                f"Received: {len(sounds)} sounds and {reprlib.repr(texts)}."
            )
        if tokenizer is not None and tokenizer.unknown_id is not None:
            _warn_of_unknown(texts[:LOOKED_AT], tokenizer)
        return tf.data.Dataset.from_tensor_slices((sounds, texts))
    spec = getattr(examples, "element_spec", None)
    is_pair = isinstance(spec, tuple) and len(spec) == 2
    if not is_pair or spec[1].dtype != tf.string or spec[1].shape.rank != 0:
        raise ValueError(
            "The model learns from sounds and their texts: a tf.data.Dataset of (sound, text), or "
            f"x=list of sounds, y=list of texts. Received: {received(examples, 'sounds, texts')}."
        )
    return examples


def _warn_of_unknown(texts, tokenizer):
    tokens = tokenizer.tokenize(texts).to_list()
    unknown = [text for text, row in zip(texts, tokens, strict=True) if tokenizer.unknown_id in row]
    if unknown:
        ((name,),) = tokenizer.pieces([[tokenizer.unknown_id]])
        warnings.warn(
            f"{len(unknown)} of {len(texts)} texts have characters that the tokenizer does not "
            f"know, such as {reprlib.repr(unknown[0])}: the model learns to write {name!r} for "
            "each. Spell them as its vocabulary does; that of wav2vec2-base-960h, for example, has "
            "capital letters only.",
            stacklevel=2,
        )


def with_negatives(pairs, negatives, kind):
    """Returns a data set of (source, target, negative) strings.

    Args:
        pairs: Data set of pairs, of known length.
        negatives: List of `str` or of encoded images, one for each pair.
        kind: What they are, for the message.

    Raises:
        ValueError: If there are more or fewer of them.
    """
    if len(negatives) != len(pairs):
        raise ValueError(
            f"`negatives` must be {kind}, one for each pair. Received: {len(negatives)} for "
            f"{len(pairs)} pairs."
        )
    negatives = tf.data.Dataset.from_tensor_slices(negatives)
    return tf.data.Dataset.zip(pairs, negatives).map(lambda pair, other: (*pair, other))


def require_pairs(pairs, kind="texts", may_have_negatives=False):
    """Raises a `ValueError` unless the elements are pairs of strings, `kind` in the message.

    With `may_have_negatives`, they may also have a third string.
    """
    spec = getattr(pairs, "element_spec", None)
    is_pair = isinstance(spec, tuple) and len(spec) in ((2, 3) if may_have_negatives else (2,))
    if not is_pair or any(each.dtype != tf.string or each.shape.rank != 0 for each in spec):
        raise ValueError(
            f"The model learns from pairs of {kind}: a tf.data.Dataset whose elements are (source, "
            "target) scalar strings, or x=list of sources, y=list of targets. Received: "
            f"{received(pairs, 'sources, targets')}."
        )


def has_several_targets(examples):
    """Whether each element of a data set is a source with a vector of targets, not a pair."""
    return examples.element_spec[1].shape.rank == 1


def draw_pairs(examples, seed):
    """Returns a pair for each source, with one of its targets, drawn anew in each pass.

    Args:
        examples: Data set of `(source, targets)`, a string and a vector of strings; or of pairs,
            which are returned unchanged.
        seed: Seed of the draws.
    """
    if not has_several_targets(examples):
        return examples

    def draw(source, targets, number):
        return source, targets[number % tf.size(targets, tf.int64)]

    numbers = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
    return tf.data.Dataset.zip(examples, numbers).map(
        lambda example, number: draw(*example, number)
    )


def with_targets(examples):
    """Returns the examples that have a target; `examples` are as for `draw_pairs`."""
    if not has_several_targets(examples):
        return examples
    kept = examples.filter(lambda _, targets: tf.size(targets) > 0)
    number = kept.reduce(tf.constant(0, tf.int64), lambda number, _: number + 1)
    return kept.apply(tf.data.experimental.assert_cardinality(number))


def all_pairs(examples):
    """Returns a pair for each target of `examples`, which are as for `draw_pairs`."""
    if not has_several_targets(examples):
        return examples
    return examples.flat_map(
        lambda source, targets: tf.data.Dataset.from_tensor_slices(targets).map(
            lambda target: (source, target)
        )
    )


def sources_and_references(examples):
    """Returns the sources of `examples`, a list of `str`, and their references.

    The references are a list of `str` for pairs, otherwise a list of lists of `str`.

    Args:
        examples: As for `draw_pairs`.

    Example:

    >>> examples = tf.data.Dataset.from_tensors(("Hi.", ["Hallo!", "Tag!"]))
    >>> sources_and_references(examples)
    (['Hi.'], [['Hallo!', 'Tag!']])
    """
    several = has_several_targets(examples)
    sources, references = [], []
    for source, target in examples.as_numpy_iterator():
        sources.append(source.decode())
        references.append([each.decode() for each in target] if several else target.decode())
    return sources, references


def require_negatives(owner, batch_size):
    """Raises a `ValueError` for batches of one pair, which has no other to be told from."""
    if batch_size == 1:
        raise ValueError(
            f"{owner} learns to tell the pairs of a batch apart, so `batch_size` must be at least "
            "2; more teach more. Received: batch_size=1."
        )
