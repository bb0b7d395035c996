"""Language models made of Transformer blocks: token ids to logits, and the step protocol.

The task, strings to strings, is `zoo.tasks.writing.TextGenerator`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import Memory
from zoo.models.language_stack import LanguageStack, LanguageStackConfig
from zoo.models.transformer import WriterConfig, run_blocks


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerLMConfig(LanguageStackConfig, WriterConfig):
    """Options of a language model, in addition to those of `LanguageStackConfig` and of
    `WriterConfig`.

    Args:
        output_scale: Factor of the logits, as in Granite.
        output_soft_cap: `c` in `c · tanh(logits / c)`, or `None` for no cap.

    Raises:
        ValueError: As for `LanguageStackConfig`, or if the cap is not above 0.
    """

    output_scale: float = 1.0
    output_soft_cap: float | None = None

    def __post_init__(self):
        super().__post_init__()
        self._require_cap("output_soft_cap")


@keras.saving.register_keras_serializable(package="zoo")
class TransformerLanguageModel(LanguageStack):
    """A stack of causal blocks that predicts each next token.

    Paper: Radford et al. 2018, Improving Language Understanding by Generative Pre-Training; with
    `position="rotary"` and without biases, as has become common since (Touvron et al. 2023,
    https://arxiv.org/abs/2302.13971).

    Args:
        vocabulary_size: Number of tokens.
        **options: The fields of `TransformerLMConfig`.

    Call arguments:
        token_ids: int32 `(batch, length)`.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, length, vocabulary_size)`; with `return_attention_scores` also a
        list of `(batch, num_heads, length, length)`, a tensor for each block.
    """

    Config = TransformerLMConfig
    architecture = "transformer_lm"
    description = "Transformer language model"

    @property
    def pad_id(self):
        """The id that left-pads prompts."""
        return self.config.pad_id

    @property
    def context_length(self):
        """Number of tokens that the model can see."""
        return self.config.context_length

    def call(self, token_ids, return_attention_scores=False, training=None):
        x = self.embed(token_ids, 0, training)
        x, weights = run_blocks(
            self.blocks, x, return_attention_scores=return_attention_scores, training=training
        )
        logits = self._logits(x)
        return (logits, [each for (each,) in weights]) if return_attention_scores else logits

    def _logits(self, x, table=None):
        logits, cap = self.embedding.logits(self.norm(x), table), self.config.output_soft_cap
        logits = logits if self.config.output_scale == 1.0 else self.config.output_scale * logits
        return logits if cap is None else cap * ops.tanh(logits / cap)

    # The step protocol of zoo.decoding.

    def start(self, prompt_ids, max_length):
        """Reads prompts except for their last tokens, which are for the first step.

        Args:
            prompt_ids: int32 `(batch, prompt_length)`, left-padded with `pad_id`.
            max_length: Number of steps to reserve room for.

        Returns:
            The context, constant during decoding, and the first state.
        """
        batch, length = ops.shape(prompt_ids)
        is_token = ops.not_equal(prompt_ids, self.config.pad_id)
        padding = length - ops.sum(ops.cast(is_token, "int32"), axis=1)  # (batch,)
        later = ops.ones((batch, max_length - 1), "bool")
        visible = ops.concatenate([is_token, later], axis=1)  # (batch, length + max_length - 1)
        context = {"first": -padding, "visible": visible, "of_model": self.embedding.laid_out()}
        caches = [block.start(batch, length + max_length - 1) for block in self.blocks]
        state = {"time": ops.convert_to_tensor(0, "int32"), "caches": [each[:2] for each in caches]}
        all_but_last = prompt_ids[:, :-1]
        if all_but_last.shape[1] != 0:
            _, state = self._advance(all_but_last, state, context)
        return context, state

    def step(self, tokens, state, context):
        """Takes the previous tokens `(rows,)` and returns the logits of the next ones.

        Returns:
            `(logits, state, None)`: `(rows, vocabulary_size)` and the next state.
        """
        x, state = self._advance(tokens[:, None], state, context)
        logits = self._logits(x, context.get("of_model"))
        return logits[:, 0], state, None

    def _advance(self, ids, state, context):
        time, visible = state["time"], context["visible"]
        x = self.embed(ids, time + context["first"], training=False)
        caches = []
        for block, (key, value) in zip(self.blocks, state["caches"], strict=True):
            memory = Memory(key, value, visible[:, : ops.shape(key)[-2]])
            x, cache = block.step(x, memory, time)
            caches.append(cache[:2])
        return x, {"time": time + ops.shape(ids)[1], "caches": caches}
