"""One decoding loop for every generating model: greedy search, seeded sampling, beam search.

`loop.py` runs a model's steps and defines what a model must provide; `search.py` keeps the results
of a row so far; a sampler (`samplers.py`, `beam.py`) only chooses the continuations to try next.
"""

from zoo.decoding.base import Sampler
from zoo.decoding.beam import BeamSampler
from zoo.decoding.loop import Decoded, decode
from zoo.decoding.processors import (
    BadFirstTokens,
    BadWords,
    ForcedFirstToken,
    MinimumLength,
    NoRepeatNGram,
    Processor,
    Progress,
    Renormalized,
    RepetitionPenalty,
    Timestamps,
)
from zoo.decoding.samplers import (
    GreedySampler,
    RandomSampler,
    TopKSampler,
    TopPSampler,
    get,
    require_token_ids,
    with_options,
    with_rules,
)

__all__ = [
    "BadFirstTokens",
    "BadWords",
    "BeamSampler",
    "Decoded",
    "ForcedFirstToken",
    "GreedySampler",
    "MinimumLength",
    "NoRepeatNGram",
    "Processor",
    "Progress",
    "RandomSampler",
    "Renormalized",
    "RepetitionPenalty",
    "Sampler",
    "Timestamps",
    "TopKSampler",
    "TopPSampler",
    "decode",
    "get",
    "require_token_ids",
    "with_options",
    "with_rules",
]
