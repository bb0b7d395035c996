"""Samplers with one beam, and the look-up of every sampler by name."""

import dataclasses
import itertools
from numbers import Integral, Real

import keras
import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo.decoding.base import Sampler, require
from zoo.decoding.beam import BeamSampler
from zoo.decoding.largest import largest
from zoo.decoding.processors import PROCESSORS, Renormalized, split_options

_LARGE_NUCLEUS = 256
_SMALLEST_TEMPERATURE = 1e-37


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class GreedySampler(Sampler):
    """Picks the most probable token of each step; the one with the lowest id in a tie.

    Example:

    >>> GreedySampler() == get("greedy")
    True
    """

    def pick(self, log_probs, uniforms):
        return tf.argmax(log_probs, axis=-1, output_type=tf.int32)


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RandomSampler(Sampler):
    """Samples a token from the model's distribution.

    $$ p(token) \\propto \\exp(\\log p_{model}(token) / temperature) $$

    Args:
        temperature: Above 1 for more variety, below 1 for less; greedy in the limit of 0.

    Raises:
        ValueError: If `temperature` is not above 0.

    Example:

    >>> RandomSampler(temperature=0.7)
    RandomSampler(temperature=0.7)
    """

    temperature: float = 1.0

    is_random = True
    numbers = ("temperature",)

    def __post_init__(self):
        super().__post_init__()
        is_number = isinstance(self.temperature, Real)
        is_positive = is_number and 0 < float(self.temperature) <= float(tf.float32.max)
        require(is_positive, "a finite number above 0", temperature=self.temperature)
        self._keep(temperature=float(self.temperature))

    def pick(self, log_probs, uniforms):
        return draw(self.weights(log_probs), uniforms)

    def weights(self, log_probs):
        """Returns probabilities up to a factor, so that the largest is 1 at any temperature."""
        # What is 0 in float32 would make 0 / 0 of the best token.
        temperature = tf.maximum(self.temperature, _SMALLEST_TEMPERATURE)
        return tf.exp((log_probs - tf.reduce_max(log_probs, -1, keepdims=True)) / temperature)


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TopKSampler(RandomSampler):
    """Samples a token from the `k` most probable ones.

    Paper: Fan et al. 2018, Hierarchical Neural Story Generation, section 5.4
    (https://aclanthology.org/P18-1082).

    Args:
        k: Exact number of tokens to sample from: of tokens that tie for the k-th place, those with
            the lowest ids. (Hugging Face keeps all that tie.)
        temperature: See `RandomSampler`.

    Raises:
        ValueError: If `k` is below 1 or `temperature` not above 0.

    Example:

    >>> TopKSampler(k=5)
    TopKSampler(temperature=1.0, k=5)
    """

    k: int = 10

    def __post_init__(self):
        super().__post_init__()
        is_count = isinstance(self.k, Integral) and self.k >= 1
        require(is_count, "an integer of at least 1", k=self.k)
        self._keep(k=int(self.k))

    def pick(self, log_probs, uniforms):
        log_probs, tokens = largest(log_probs, self.k)
        return tf.gather(tokens, draw(self.weights(log_probs), uniforms), batch_dims=1)


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TopPSampler(RandomSampler):
    """Samples a token from the nucleus: the fewest tokens that together have probability `p`.

    The probabilities are those at `temperature`, among the tokens that are allowed.

    Paper: Holtzman et al. 2020, The Curious Case of Neural Text Degeneration, section 3.1
    (https://arxiv.org/abs/1904.09751).

    Args:
        p: Probability mass of the nucleus, above 0 and at most 1.
        k: Number of most probable tokens to take the nucleus from, whose probabilities are
            normalized to 1 before; `None` for all.
        temperature: See `RandomSampler`.

    Raises:
        ValueError: If `p` is not in (0, 1], `k` below 1 or `temperature` not above 0.

    Example:

    >>> TopPSampler(p=0.95)
    TopPSampler(temperature=1.0, p=0.95)
    """

    p: float = 0.9
    k: int | None = None

    numbers = ("temperature", "p")

    def __post_init__(self):
        super().__post_init__()
        is_probability = isinstance(self.p, Real) and 0 < self.p <= 1
        require(is_probability, "a number above 0 and at most 1", p=self.p)
        is_count = self.k is None or (isinstance(self.k, Integral) and self.k >= 1)
        require(is_count, "an integer of at least 1, or None", k=self.k)
        self._keep(p=float(self.p), k=None if self.k is None else int(self.k))

    def pick(self, log_probs, uniforms):
        weights = self.weights(log_probs)
        vocabulary = tf.shape(weights)[-1]

        def draw_from(best, whole):
            target = self.p * tf.reduce_sum(whole, -1, keepdims=True)
            before = tf.cumsum(best.values, axis=-1, exclusive=True)
            nucleus = tf.where(before < target, best.values, 0.0)
            return tf.gather(best.indices, draw(nucleus, uniforms), batch_dims=1)

        if self.k is not None:
            best = tf.math.top_k(weights, tf.minimum(self.k, vocabulary))
            return draw_from(best, best.values)
        # Sorting a whole vocabulary is slow, and a nucleus is mostly small.
        head = tf.math.top_k(weights, tf.minimum(_LARGE_NUCLEUS, vocabulary))
        target = self.p * tf.reduce_sum(weights, -1, keepdims=True)
        return tf.cond(
            tf.reduce_all(tf.reduce_sum(head.values, -1, keepdims=True) >= target),
            lambda: draw_from(head, weights),
            lambda: draw_from(tf.math.top_k(weights, vocabulary), weights),
        )


def draw(weights, uniforms):
    """Returns the index at which the cumulative weight of each row passes its uniform number.

    Args:
        weights: `[batch, choices]` float32, not negative; an index of weight 0 is never drawn.
        uniforms: `[batch]` float32 in [0, 1).
    """
    cumulative = tf.cumsum(weights, axis=-1)
    passed = cumulative > uniforms[:, None] * cumulative[:, -1:]
    # XLA adds in another order, where rounding may let the sum grow at a weight of 0.
    rank = tf.where(weights > 0, tf.cast(passed, tf.int32), -1)
    return tf.argmax(rank, axis=-1, output_type=tf.int32)


_SAMPLERS = {
    "greedy": GreedySampler,
    "random": RandomSampler,
    "top_k": TopKSampler,
    "top_p": TopPSampler,
    "beam": BeamSampler,
}
_ELSEWHERE = {  # what other libraries call options
    "max_new_tokens": "max_length=...",
    "max_tokens": "max_length=...",
    "top_k": 'sampler="top_k" and k=...',
    "top_p": 'sampler="top_p" and p=...',
}


def get(identifier, **options):
    """Returns a sampler.

    Args:
        identifier: `"greedy"`, `"random"`, `"top_k"`, `"top_p"`, `"beam"`, a `Sampler`, or a config
            of one made by `keras.saving.serialize_keras_object`.
        **options: Arguments of the named sampler, and options of every sampler:
            `repetition_penalty`, `no_repeat_ngram_size`, `min_length`, `forced_first_token`,
            `bad_words`, `bad_first_tokens` (see `zoo.decoding.processors`), `processors` and
            `end_ids`.

    Raises:
        ValueError: If the name or an option is unknown, or an option is out of range.

    Example:

    >>> get("beam", num_beams=2)
    BeamSampler(num_beams=2, length_penalty=1.0, num_return_sequences=1, exact=True)
    >>> get("greedy", repetition_penalty=1.2, end_ids=[7])
    GreedySampler(processors=(RepetitionPenalty(penalty=1.2),), end_ids=(7,))
    """
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, Sampler):
        if options:
            raise ValueError(
                "Options go with the name of a sampler; an object has its own. "
                f"Received: {identifier!r} and {', '.join(options)}."
            )
        return identifier
    if identifier not in _SAMPLERS:
        raise ValueError(unknown_name("sampler", identifier, _SAMPLERS))
    kind = _SAMPLERS[identifier]
    _require_options(kind, options, f"The sampler {identifier!r}")
    options, processors = split_options(options)
    return kind(**options, processors=processors)


def with_options(sampler, **options):
    """Returns a sampler with some options changed.

    Args:
        sampler: A `Sampler`.
        **options: As for `get`. A processor replaces another one of its kind; `processors` replaces
            all.

    Raises:
        ValueError: If the sampler has no such option, or it is out of range.

    Example:

    >>> with_options(get("greedy", min_length=3, repetition_penalty=1.2), min_length=5)
    GreedySampler(processors=(RepetitionPenalty(penalty=1.2), MinimumLength(length=5)))
    """
    _require_options(type(sampler), options, f"The default sampler {sampler!r}")
    replaced = "processors" in options
    options, processors = split_options(options)
    others = () if replaced else sampler.processors
    kept = [each for each in others if type(each) not in map(type, processors)]
    return dataclasses.replace(sampler, **options, processors=_ordered(*kept, *processors))


def with_rules(sampler, other):
    """Returns a sampler with the rules of another one, unless it has its own.

    Args:
        sampler: A `Sampler`.
        other: The sampler whose `processors` of other kinds, and `end_ids`, it gets.

    Example:

    >>> with_rules(get("greedy", min_length=5), get("beam", min_length=3, end_ids=[7]))
    GreedySampler(processors=(MinimumLength(length=5),), end_ids=(7,))
    """
    own = sampler.processors
    kept = [each for each in other.processors if type(each) not in map(type, own)]
    end_ids = sampler.end_ids or other.end_ids
    return dataclasses.replace(sampler, processors=_ordered(*kept, *own), end_ids=end_ids)


def _ordered(*processors):
    """Returns processors in their order, `Renormalized` behind those that forbid tokens."""
    return tuple(sorted(processors, key=lambda each: isinstance(each, Renormalized)))


def require_token_ids(options, vocabulary_size):
    """Raises a `ValueError` if options of a sampler hold an id of no token.

    Args:
        options: Dictionary of options that `get` takes.
        vocabulary_size: Number of tokens.
    """
    for name in ("end_ids", "forced_first_token", "bad_words", "bad_first_tokens"):
        ids = tf.nest.flatten(options.get(name, ()))
        is_known = all(0 <= each < vocabulary_size for each in ids)
        expectation = f"in the vocabulary, which has ids from 0 to {vocabulary_size - 1}"
        require(is_known, expectation, **{name: options.get(name)})


def _require_options(kind, options, name):
    """Raises a `ValueError` unless a class of samplers has options; it says which one has them."""
    allowed = _options_of(kind)
    for option in options:
        if option not in allowed:
            homes = [each for each, other in _SAMPLERS.items() if option in _options_of(other)]
            if option in _ELSEWHERE:
                raise ValueError(
                    f"Unknown option of a sampler {option!r}. Pass {_ELSEWHERE[option]} instead."
                )
            if not homes:
                every = dict.fromkeys(itertools.chain(*map(_options_of, _SAMPLERS.values())))
                raise ValueError(unknown_name("option of a sampler", option, every))
            common = _options_of(Sampler)
            own = ", ".join(each for each in allowed if each not in common)
            homes = " or ".join(f"sampler={home!r}" for home in homes)
            raise ValueError(
                f"{name} has no option {option!r}. Its options: {own or 'none'}, and those of "
                f"every sampler: {', '.join(common)}. {option!r} goes with {homes} (--sampler on "
                "the command line)."
            )


def _options_of(kind):
    return [*(field.name for field in dataclasses.fields(kind)), *PROCESSORS]
