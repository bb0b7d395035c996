"""The interface between the decoding loop and samplers."""

import copy
import dataclasses
from numbers import Integral
from typing import NamedTuple

import keras
import tensorflow as tf

LARGEST = tf.int32.max


class Candidates(NamedTuple):
    """Continuations of the live beams of each row, best first, all `[batch, candidates]`."""

    log_probs: tf.Tensor  # of the whole hypothesis, this token included
    tokens: tf.Tensor
    parents: tf.Tensor  # the beam that each one continues


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Sampler:
    """Base class of the samplers, which choose the continuations of a hypothesis to try next.

    A sampler is a frozen dataclass whose fields are its options. So it prints as its constructor
    call, equals every other one with the same options, and can key a cache of compiled functions.

    A sampler with one beam overrides `pick`. One with several overrides `candidates` and, unless it
    ranks by the plain log-probability, `score` and `attainable`. Rules that depend on the tokens so
    far, such as a repetition penalty, are processors: they work with every sampler.

    Args:
        processors: `zoo.decoding.Processor`s that change the scores of the next token, in order.
        end_ids: Tokens that end a text besides the end token of the tokenizer.

    Class attributes:
        num_beams: Number of live hypotheses per row.
        num_return_sequences: Number of finished hypotheses to return per row.
        num_kept: Number of finished hypotheses to keep per row during the search, at least as many.
        ends_after: Number of hypotheses after whose end a row is finished; `None` for no such
            number.
        only_best_end: Whether a hypothesis ends only by one of the `num_beams` best candidates.
        is_random: Whether `pick` needs uniform numbers, hence the loop seeds.
        numbers: Names of options that only enter the arithmetic. They may be tensors, so that one
            compiled function serves all of their values.
    """

    processors: tuple = ()
    end_ids: tuple = ()

    num_beams = 1
    num_return_sequences = 1
    ends_after = None
    only_best_end = False
    is_random = False
    numbers = ()

    @property
    def num_kept(self):
        return self.num_return_sequences

    def __post_init__(self):
        ends, processors = self.end_ids, self.processors
        is_several = isinstance(ends, list | tuple) and all(
            isinstance(each, Integral) for each in ends
        )
        require(is_several, "a sequence of token ids", end_ids=ends)
        is_several = isinstance(processors, list | tuple) and all(map(callable, processors))
        require(is_several, "a sequence of `zoo.decoding.Processor`s", processors=processors)
        self._keep(end_ids=tuple(map(int, ends)), processors=tuple(processors))

    def __repr__(self):
        off = (), None, False
        fields = dataclasses.fields(self)
        shown = [
            f"{field.name}={value!r}"
            for field in [*fields[2:], *fields[:2]]
            if (value := getattr(self, field.name)) not in off or field.default not in off
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def pick(self, log_probs, uniforms):
        """Returns the next token of each row, `[batch]` int32.

        Args:
            log_probs: `[batch, vocabulary]` float32, −inf for what must not be produced.
            uniforms: `[batch]` numbers in [0, 1), or None where `is_random` is false.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `pick` or `candidates`.")

    def candidates(self, next_tokens, totals, uniforms):
        """Returns `Candidates`, of which at least `num_beams` do not end their hypothesis.

        If there is only one candidate, it may end: a sampler with one beam is then finished.

        Args:
            next_tokens: `zoo.decoding.next_tokens.NextTokens` of the beams.
            totals: `[batch, beams]` float32, of the live hypotheses; −inf for a dead one.
            uniforms: `[batch]` numbers in [0, 1), or None where `is_random` is false.
        """
        log_probs = next_tokens.log_probs[:, 0]
        tokens = self.pick(log_probs, uniforms)[:, None]
        totals += tf.gather(log_probs, tokens, batch_dims=1)
        return Candidates(totals, tokens, tf.zeros_like(tokens))

    def score(self, log_probs, length):
        """Returns the scores that rank hypotheses of `length` tokens, the end token included."""
        return log_probs

    def attainable(self, log_probs, length, max_lengths):
        """Returns the best score that live hypotheses of `length` tokens can still reach.

        Args:
            log_probs: `[batch]` float32, of the best live hypothesis of each row.
            length: int32 scalar.
            max_lengths: `[batch]` int32.
        """
        return log_probs

    def with_numbers(self, values):
        """Returns the same sampler with other values of the options in `numbers`, unchecked."""
        sampler = copy.copy(self)
        sampler._keep(**dict(zip(self.numbers, values, strict=True)))
        return sampler

    def _keep(self, **options):
        for name, value in options.items():
            object.__setattr__(self, name, value)

    def get_config(self):
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        serialized = [keras.saving.serialize_keras_object(each) for each in self.processors]
        options |= {"processors": serialized, "end_ids": list(self.end_ids)}
        return {name: value for name, value in options.items() if value != []}

    @classmethod
    def from_config(cls, config):
        processors = map(keras.saving.deserialize_keras_object, config.get("processors", []))
        return cls(**{**config, "processors": tuple(processors)})


def as_length(max_length):
    """Returns a number of tokens as an `int`.

    Raises:
        ValueError: If it is not a number of tokens.
    """
    is_length = isinstance(max_length, Integral) and 1 <= max_length <= LARGEST
    require(is_length, f"an integer from 1 to {LARGEST}", max_length=max_length)
    return int(max_length)


def as_seed(seed):
    """Returns the seed of a random sampler as an `int`.

    Raises:
        ValueError: If it is not a seed.
    """
    is_seed = isinstance(seed, Integral) and abs(seed) <= LARGEST
    require(is_seed, f"an integer from -{LARGEST} to {LARGEST}", seed=seed)
    return int(seed)


def require(condition, expectation, **argument):
    """Raises a `ValueError` with argument, expectation and value, unless `condition` holds."""
    if not condition:
        ((name, value),) = argument.items()
        raise ValueError(f"`{name}` must be {expectation}. Received: {name}={value!r:.500}.")
