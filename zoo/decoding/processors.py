"""Processors: rules that change the scores of the next token depending on the tokens so far.

Every sampler applies its `processors` in order, before it picks: to the logits with one beam, to
the log-probabilities of each beam with several. Semantics and option names are those of Hugging
Face's `LogitsProcessor` classes.
"""

import dataclasses
from numbers import Integral, Real
from typing import NamedTuple

import keras
import tensorflow as tf

from zoo.decoding.base import require
from zoo.decoding.search import is_one_of

NOTHING = -1  # stands in a history where there is no token


class Progress(NamedTuple):
    """The progress of the hypotheses in a step.

    Attributes:
        history: `[rows, width]` int32, the prompt and the tokens generated so far; −1 elsewhere:
            before a shorter prompt, and at the end, for tokens yet to come.
        end: int32 scalar, the position of the next token in `history`.
        step: int32 scalar, the number of tokens generated so far.
        end_ids: Tuple of the tokens that end a text.
    """

    history: tf.Tensor
    end: tf.Tensor
    step: tf.Tensor
    end_ids: tuple

    def last(self, count):
        """Returns the last `count` tokens, `[rows, count]`; −1 where there are none."""
        places = self.end - count + tf.range(count)
        tokens = tf.gather(self.history, tf.maximum(places, 0), axis=1)
        return tf.where(places >= 0, tokens, NOTHING)


@dataclasses.dataclass(frozen=True)
class Processor:
    """Base class of the processors: a frozen dataclass whose fields are its options.

    A subclass overrides `__call__` with core TensorFlow ops, so that it works in the compiled loop
    and in exported models. Register it with `keras.saving.register_keras_serializable` to save
    models whose sampler uses it.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Favor(Processor):
    ...     token: int
    ...     bonus: float = 1.0
    ...
    ...     def __call__(self, scores, progress):
    ...         return scores + self.bonus * tf.one_hot(self.token, scores.shape[-1])
    >>> from zoo.decoding import get
    >>> get("greedy", processors=[Favor(3)])
    GreedySampler(processors=(Favor(token=3, bonus=1.0),))
    """

    def __call__(self, scores, progress):
        """Returns the changed scores; −inf for tokens that must not be produced.

        Args:
            scores: `[rows, vocabulary]` float32.
            progress: The `Progress` of these rows.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `__call__`.")

    def get_config(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True)
class RepetitionPenalty(Processor):
    """Makes tokens that occurred already, including those of the prompt, less probable.

    $$ s' = s / penalty \\text{ if } s > 0, \\quad s \\cdot penalty \\text{ otherwise} $$

    Paper: Keskar et al. 2019, CTRL: A Conditional Transformer Language Model for Controllable
    Generation, section 4.1 (https://arxiv.org/abs/1909.05858).

    Args:
        penalty: Above 1 discourages repetition, below 1 encourages it.

    Raises:
        ValueError: If `penalty` is not above 0.

    Example:

    >>> RepetitionPenalty(1.2)
    RepetitionPenalty(penalty=1.2)
    """

    penalty: float

    def __post_init__(self):
        is_positive = isinstance(self.penalty, Real) and self.penalty > 0
        require(is_positive, "a number above 0", repetition_penalty=self.penalty)

    def __call__(self, scores, progress):
        is_seen = _marked(progress.history, progress.history >= 0, scores)
        penalty = tf.cast(self.penalty, scores.dtype)
        return tf.where(is_seen, tf.where(scores < 0, scores * penalty, scores / penalty), scores)


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True)
class NoRepeatNGram(Processor):
    """Forbids tokens that would complete an n-gram a second time; the prompt counts.

    Paper: Paulus et al. 2018, A Deep Reinforced Model for Abstractive Summarization, section 2.5
    (https://arxiv.org/abs/1705.04304).

    Args:
        size: Number of tokens in an n-gram; 1 forbids every token that occurred already.

    Raises:
        ValueError: If `size` is not an integer of at least 1.

    Example:

    >>> NoRepeatNGram(3)
    NoRepeatNGram(size=3)
    """

    size: int

    def __post_init__(self):
        is_count = isinstance(self.size, Integral) and self.size >= 1
        require(is_count, "an integer of at least 1", no_repeat_ngram_size=self.size)

    def __call__(self, scores, progress):
        begun = progress.last(self.size - 1)  # [rows, size - 1], what the next token would complete
        history = tf.pad(progress.history, [[0, 0], [0, self.size]], constant_values=NOTHING)
        width = tf.shape(progress.history)[1]
        following = history[:, self.size - 1 : self.size - 1 + width]
        is_banned = following >= 0
        for place in range(self.size - 1):
            token = begun[:, place, None]
            is_banned &= (history[:, place : place + width] == token) & (token >= 0)
        return _banned(scores, _marked(following, is_banned, scores))


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True)
class MinimumLength(Processor):
    """Forbids the end tokens until there are `length` new tokens.

    Hugging Face calls this `min_new_tokens`; its `min_length` also counts prompt and start token.

    Args:
        length: Minimum number of tokens, without the prompt and the end token.

    Raises:
        ValueError: If `length` is not an integer of at least 1.

    Example:

    >>> MinimumLength(5)
    MinimumLength(length=5)
    """

    length: int

    def __post_init__(self):
        is_count = isinstance(self.length, Integral) and self.length >= 1
        require(is_count, "an integer of at least 1", min_length=self.length)

    def __call__(self, scores, progress):
        tokens = tf.range(tf.shape(scores)[1])
        is_end = is_one_of(tokens, progress.end_ids)
        return _banned(scores, is_end & (progress.step < self.length))


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True)
class ForcedFirstToken(Processor):
    """Makes every text begin with one token, such as that of the target language.

    Args:
        token: Its id.

    Raises:
        ValueError: If `token` is not an integer of at least 0.

    Example:

    >>> ForcedFirstToken(7)
    ForcedFirstToken(token=7)
    """

    token: int

    def __post_init__(self):
        is_token = isinstance(self.token, Integral) and self.token >= 0
        require(is_token, "the id of a token", forced_first_token=self.token)

    def __call__(self, scores, progress):
        tokens = tf.range(tf.shape(scores)[1])
        forced = tf.where(tokens == self.token, tf.zeros_like(scores), float("-inf"))
        return tf.where(progress.step == 0, forced, scores)


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True)
class BadWords(Processor):
    """Forbids words, each a sequence of tokens: its last token is forbidden after the others.

    This includes the prompt: a word that begins there must not be completed. Only these sequences
    are forbidden: the model may spell the same word with other, shorter pieces.

    Args:
        words: Sequences of token ids, such as `model.tokenizer.tokenize(["damn"]).to_list()`.

    Raises:
        ValueError: If there is no word, a word is empty, or an entry is not a token id.

    Example:

    >>> BadWords([[5], [6, 7]])
    BadWords(words=((5,), (6, 7)))
    """

    words: tuple

    def __post_init__(self):
        is_several = isinstance(self.words, list | tuple) and len(self.words) > 0
        expectation = (
            "sequences of token ids, such as [[5], [6, 7]], or for texts "
            "model.tokenizer.tokenize(texts).to_list()"
        )
        require(is_several and all(map(_is_word, self.words)), expectation, bad_words=self.words)
        words = tuple(tuple(int(token) for token in word) for word in self.words)
        object.__setattr__(self, "words", words)

    def __call__(self, scores, progress):
        tokens = tf.range(tf.shape(scores)[1])
        is_banned = _among([word[0] for word in self.words if len(word) == 1], scores)
        for *begun, last in (word for word in self.words if len(word) > 1):
            is_begun = tf.reduce_all(progress.last(len(begun)) == begun, axis=1, keepdims=True)
            is_banned |= is_begun & (tokens == last)
        return _banned(scores, is_banned)


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True)
class BadFirstTokens(Processor):
    """Forbids tokens at the beginning of a text, such as the end token, so that no text is empty.

    Hugging Face calls this `begin_suppress_tokens`.

    Args:
        tokens: Token ids.

    Raises:
        ValueError: If there is none, or an entry is not a token id.

    Example:

    >>> BadFirstTokens([5, 6])
    BadFirstTokens(tokens=(5, 6))
    """

    tokens: tuple

    def __post_init__(self):
        require(
            _is_word(self.tokens), "ids of tokens, such as [5, 6]", bad_first_tokens=self.tokens
        )
        object.__setattr__(self, "tokens", tuple(map(int, self.tokens)))

    def __call__(self, scores, progress):
        return _banned(scores, _among(self.tokens, scores) & (progress.step == 0))


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True)
class Timestamps(Processor):
    """Makes a text consist of segments, each between a timestamp and a later one, as in Whisper.

    If timestamps together are more probable than any other token, the next token is one of them.

    Paper: Radford et al. 2022, Robust Speech Recognition via Large-Scale Weak Supervision, sections
    3.8 and 4.5 (https://arxiv.org/abs/2212.04356).

    Args:
        first: Id of the timestamp 0; later ones follow to the end of the vocabulary. The token
            before it, which stands for a text without timestamps, is forbidden.
        latest_start: How many timestamps after the first the text may begin; `None` for no limit.

    Raises:
        ValueError: If `first` is not such an id.

    Example:

    >>> Timestamps(50364, latest_start=50)
    Timestamps(first=50364, latest_start=50)
    """

    first: int
    latest_start: int | None = None

    def __post_init__(self):
        is_token = isinstance(self.first, Integral) and self.first > 0
        require(is_token, "the id of a token with another before it", first=self.first)

    def __call__(self, scores, progress):
        tokens = tf.range(tf.shape(scores)[1])
        is_time, is_text = tokens >= self.first, tokens < min(progress.end_ids)
        was_time = progress.last(2) >= self.first
        has_begun = was_time[:, 1:] & (was_time[:, :1] | (progress.step < 2))  # a segment
        has_ended = was_time[:, 1:] & ~has_begun
        latest = tf.reduce_max(progress.history, axis=1, keepdims=True)
        earliest = tf.where(has_ended, latest, latest + 1)
        is_banned = (tokens == self.first - 1) | (is_time & (tokens < earliest))
        is_banned |= (has_begun & is_time) | (has_ended & is_text)
        last_start = tokens[-1] if self.latest_start is None else self.first + self.latest_start
        is_banned |= (progress.step == 0) & (~is_time | (tokens > last_start))
        scores = _banned(scores, is_banned)
        log_probs = tf.nn.log_softmax(scores)
        of_times = tf.reduce_logsumexp(log_probs[:, self.first :], axis=1, keepdims=True)
        others = tf.reduce_max(log_probs[:, : self.first], axis=1, keepdims=True)
        return _banned(scores, ~is_time & (of_times > others))


@keras.saving.register_keras_serializable(package="zoo")
@dataclasses.dataclass(frozen=True)
class Renormalized(Processor):
    """Makes the probabilities of the tokens that are left sum to 1, if it is the last processor.

    It matters for beam search, where hypotheses with different probabilities of forbidden tokens
    compete. Hugging Face calls this `renormalize_logits`.

    Example:

    >>> scores = tf.math.log([[0.5, 0.25, 0.25]])
    >>> rules = BadWords([[0]]), Renormalized()
    >>> for rule in rules:
    ...     scores = rule(scores, progress=None)
    >>> tf.exp(scores).numpy().round(3).tolist()
    [[0.0, 0.5, 0.5]]
    """

    def __call__(self, scores, progress):
        return tf.where(scores > float("-inf"), tf.nn.log_softmax(scores), scores)


PROCESSORS = {
    "repetition_penalty": RepetitionPenalty,
    "no_repeat_ngram_size": NoRepeatNGram,
    "min_length": MinimumLength,
    "forced_first_token": ForcedFirstToken,
    "bad_words": BadWords,
    "bad_first_tokens": BadFirstTokens,
}


def split_options(options):
    """Separates the options of processors from the options of a sampler.

    Args:
        options: Dictionary of options, including names in `PROCESSORS` and `processors`, a list of
            additional ones.

    Returns:
        A pair: the other options, and a tuple of `Processor`s in the order of `PROCESSORS`.

    Example:

    >>> split_options({"num_beams": 2, "min_length": 3})
    ({'num_beams': 2}, (MinimumLength(length=3),))
    """
    others = {name: value for name, value in options.items() if name not in PROCESSORS}
    named = [PROCESSORS[name](options[name]) for name in PROCESSORS if name in options]
    given = others.pop("processors", ())
    is_several = isinstance(given, list | tuple)
    require(is_several, "a sequence of `zoo.decoding.Processor`s", processors=given)
    return others, (*named, *given)


def _is_word(word):
    is_sequence = isinstance(word, list | tuple) and len(word) > 0
    return is_sequence and all(isinstance(each, Integral) and each >= 0 for each in word)


def _marked(tokens, is_marked, scores):
    """Returns which tokens of the vocabulary are marked, boolean of the shape of the scores."""
    rows, vocabulary = tf.unstack(tf.shape(scores))
    is_marked &= tokens < vocabulary  # a start token may have no logit
    tokens = tf.where(is_marked, tokens, vocabulary)  # a place of its own for what is not
    places = tf.stack([tf.broadcast_to(tf.range(rows)[:, None], tf.shape(tokens)), tokens], axis=2)
    counts = tf.scatter_nd(places, tf.ones_like(tokens), [rows, vocabulary + 1])
    return counts[:, :vocabulary] > 0


def _among(tokens, scores):
    """Returns which tokens of the vocabulary are among these, boolean `[1, vocabulary]`."""
    tokens = tf.constant([tokens], tf.int32)
    return _marked(tokens, tokens >= 0, scores[:1])


def _banned(scores, is_banned):
    return tf.where(is_banned, float("-inf"), scores)
