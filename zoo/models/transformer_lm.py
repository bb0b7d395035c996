"""Language models made of Transformer blocks: token ids to logits, and the step protocol.

The task, strings to strings, is `zoo.tasks.writing.TextGenerator`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import EncoderBlock, Memory, masks, positions, scores
from zoo.models.core import Core
from zoo.models.transformer import (
    EMBEDDED,
    WriterConfig,
    embedding_of,
    make_blocks,
    make_norm,
    run_blocks,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerLMConfig(WriterConfig):
    """Options of a language model, in addition to those of `WriterConfig`, whose defaults partly
    differ.

    Args:
        context_length: Number of tokens in the context that it is trained with.
        first_position: Position of the first token, with an embedded `position`.
        embedding_norm: Whether the embedding is normalized, as in BLOOM.
        hidden: Hidden size of the feed-forward networks; defaults to `4 · size`.
        window: Number of tokens that a token attends to, itself included, as in Mistral; `None` for
            all.
        global_layers: With a `window`, the numbers of the blocks, from 0, whose tokens attend to
            all tokens, as in Gemma 2; `None` for no such block.
        global_position: Position inside the attention of these blocks, as in Gemma 3; defaults to
            `position`.
        score: Score of the attention, a name or a config, as for `Attention`.
        soft_cap: `c` in `c · tanh(scores / c)`, or `None` for no cap.
        output_soft_cap: The same for the logits.
        parallel: Whether attention and feed-forward network of a block have the same input, as in
            GPT-NeoX.

    Raises:
        ValueError: As for `WriterConfig`, or if `global_layers` are not numbers of blocks beside a
            `window`, `global_position` is not one inside attention or there are no such blocks, or
            a cap is not above 0.
    """

    hidden: int | None = None
    normalize: str = "pre"
    position: str | dict = "rotary"
    activation: str = "gelu"
    use_bias: bool | list = False
    context_length: int = 256
    first_position: int = 0
    embedding_norm: bool = False
    window: int | None = None
    global_layers: list | None = None
    global_position: str | dict | None = None
    score: str | dict = "scaled_dot"
    soft_cap: float | None = None
    output_soft_cap: float | None = None
    parallel: bool = False

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "hidden", self.hidden or 4 * self.size)
        self._require_name("global_position", positions.names())
        self._require_name("score", scores.names())
        self._require_global_layers()
        for name in ("soft_cap", "output_soft_cap"):
            cap = getattr(self, name)
            if cap is not None and cap <= 0:
                raise ValueError(
                    f"`{name}` of TransformerLM must be above 0, or None for no cap. Received: "
                    f"{name}={cap!r}."
                )

    def _require_global_layers(self):
        found = self.global_layers
        if found is None:
            if self.global_position is not None:
                raise ValueError(
                    "`global_position` of TransformerLM is that of the blocks in `global_layers`. "
                    f"Received: global_position={self.global_position!r}, global_layers=None. "
                    "Pass `global_layers`, or for all blocks `position`."
                )
            return
        is_list = isinstance(found, list | tuple)  # of integers: booleans may mean each block
        is_list = is_list and all(type(place) is int for place in found)
        if self.window is None or not is_list or not set(found) <= set(range(self.num_layers)):
            raise ValueError(
                "`global_layers` of TransformerLM must be None or, beside a `window`, a list of "
                f"numbers of blocks, from 0 to {self.num_layers - 1}. Received: global_layers="
                f"{found!r}, window={self.window}."
            )


@keras.saving.register_keras_serializable(package="zoo")
class TransformerLanguageModel(Core):
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

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.embedding = embedding_of(
            config,
            config.context_length + config.first_position,
            dtype,
            norm=config.norm if config.embedding_norm else None,
            epsilon=config.epsilon,
        )
        self.blocks = [self._make_block(place) for place in range(config.num_layers)]
        self.norm = make_norm(config, "norm", dtype)

    def _make_block(self, place):
        config, mask = self.config, masks.Causal()
        position = config.position
        if config.window is not None:
            if place not in (config.global_layers or ()):
                mask &= masks.SlidingWindow(left=config.window - 1, right=0)
            elif config.global_position is not None:
                position = config.global_position
        (block,) = make_blocks(
            EncoderBlock,
            "block",
            config,
            number=1,
            first=place,
            mask=mask,
            position=None if position in EMBEDDED else position,
            score=config.score,
            soft_cap=config.soft_cap,
            parallel=config.parallel,
            dtype=self.dtype_policy,
        )
        return block

    @property
    def pad_id(self):
        """The id that left-pads prompts."""
        return self.config.pad_id

    @property
    def context_length(self):
        """Number of tokens that the model can see."""
        return self.config.context_length

    def build(self, input_shape=None):
        shape = (None, None, self.embedding.size)
        self.embedding.build()
        for block in self.blocks:
            block.build(shape)
        self.norm.build(shape)

    def call(self, token_ids, return_attention_scores=False, training=None):
        x = self._embed(token_ids, 0, training)
        x, weights = run_blocks(
            self.blocks, x, return_attention_scores=return_attention_scores, training=training
        )
        logits = self._logits(x)
        return (logits, [each for (each,) in weights]) if return_attention_scores else logits

    def _embed(self, ids, start, training):
        return self.embedding(ids, start=start + self.config.first_position, training=training)

    def _logits(self, x, table=None):
        logits, cap = self.embedding.logits(self.norm(x), table), self.config.output_soft_cap
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
        x = self._embed(ids, time + context["first"], training=False)
        caches = []
        for block, (key, value) in zip(self.blocks, state["caches"], strict=True):
            memory = Memory(key, value, visible[:, : ops.shape(key)[-2]])
            x, cache = block.step(x, memory, time)
            caches.append(cache[:2])
        return x, {"time": time + ops.shape(ids)[1], "caches": caches}
