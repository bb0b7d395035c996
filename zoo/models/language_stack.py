"""The stack of blocks of language models, which models of other purposes share."""

import dataclasses

from keras_attention import EncoderBlock, masks, positions, scores
from zoo.models.core import Core
from zoo.models.transformer import (
    EMBEDDED,
    TransformerConfig,
    embedding_of,
    make_blocks,
    make_norm,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageStackConfig(TransformerConfig):
    """Options of the stack of a language model, in addition to those of `TransformerConfig`, whose
    defaults partly differ.

    Args:
        scaled: Whether embeddings are multiplied by the square root of `size`; or a factor, as in
            Granite.
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
        layers_without_position: The numbers of the blocks whose attention has no position, as in
            SmolLM3; `None` for no such block.
        score: Score of the attention, a name or a config, as for `Attention`.
        soft_cap: `c` in `c · tanh(scores / c)`, or `None` for no cap.
        parallel: Whether attention and feed-forward network of a block have the same input, as in
            GPT-NeoX.
        shared_norm: Whether they also share its normalization, as in Phi-2.
        residual_scale: Factor of what each part of a block adds, as in Granite.

    Raises:
        ValueError: As for `TransformerConfig`, or if `global_layers` are not numbers of blocks
            beside a `window`, `layers_without_position` are not numbers of blocks,
            `global_position` is not one inside attention or there are no such blocks, or a cap is
            not above 0.
    """

    hidden: int | None = None
    normalize: str = "pre"
    position: str | dict = "rotary"
    activation: str = "gelu"
    use_bias: bool | list = False
    scaled: bool | float = True
    context_length: int = 256
    first_position: int = 0
    embedding_norm: bool = False
    window: int | None = None
    global_layers: list | None = None
    global_position: str | dict | None = None
    layers_without_position: list | None = None
    score: str | dict = "scaled_dot"
    soft_cap: float | None = None
    parallel: bool = False
    shared_norm: bool = False
    residual_scale: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "hidden", self.hidden or 4 * self.size)
        self._require_name("global_position", positions.names())
        self._require_name("score", scores.names())
        self._require_global_layers()
        self._require_blocks("layers_without_position")
        self._require_cap("soft_cap")

    def _require_cap(self, name):
        cap = getattr(self, name)
        if cap is not None and cap <= 0:
            raise ValueError(
                f"`{name}` of {self._owner} must be above 0, or None for no cap. Received: "
                f"{name}={cap!r}."
            )

    def _require_global_layers(self):
        if self.global_layers is None:
            if self.global_position is not None:
                raise ValueError(
                    f"`global_position` of {self._owner} is that of the blocks in `global_layers`. "
                    f"Received: global_position={self.global_position!r}, global_layers=None. "
                    "Pass `global_layers`, or for all blocks `position`."
                )
            return
        if self.window is None:
            raise ValueError(
                f"`global_layers` of {self._owner} are blocks without the `window` of the others. "
                f"Received: global_layers={self.global_layers!r}, window=None. Pass a `window`, or "
                "omit them."
            )
        self._require_blocks("global_layers")

    def _require_blocks(self, name):
        """Raises a `ValueError` unless an option is `None` or a list of numbers of blocks."""
        found = getattr(self, name)
        if found is None:
            return
        is_list = isinstance(found, list | tuple)  # of integers: booleans may mean each block
        is_list = is_list and all(type(place) is int for place in found)
        if not is_list or not set(found) <= set(range(self.num_layers)):
            raise ValueError(
                f"`{name}` of {self._owner} must be None or a list of numbers of blocks, from 0 to "
                f"{self.num_layers - 1}. Received: {name}={found!r}."
            )

    @property
    def _owner(self):
        return type(self).__name__.removesuffix("Config")


class LanguageStack(Core):
    """The embedding, the blocks and the last normalization of a language model.

    Args:
        vocabulary_size: Number of tokens.
        **options: The fields of `LanguageStackConfig`, or of a subclass of it.
    """

    Config = LanguageStackConfig

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
        config, mask, position = self.config, self.mask_of_blocks(), self.config.position
        if config.window is not None:
            if place not in (config.global_layers or ()):
                window = self.mask_of_window()
                mask = window if mask is None else mask & window
            elif config.global_position is not None:
                position = config.global_position
        if position in EMBEDDED or place in (config.layers_without_position or ()):
            position = None
        (block,) = make_blocks(
            EncoderBlock,
            "block",
            config,
            number=1,
            first=place,
            mask=mask,
            position=position,
            score=config.score,
            soft_cap=config.soft_cap,
            parallel=config.parallel,
            shared_norm=config.shared_norm,
            residual_scale=config.residual_scale,
            dtype=self.dtype_policy,
        )
        return block

    def mask_of_blocks(self):
        """Returns the mask of all blocks."""
        return masks.Causal()

    def mask_of_window(self):
        """Returns the mask of blocks with a `window`, in addition to that of all blocks."""
        return masks.SlidingWindow(left=self.config.window - 1, right=0)

    def build(self, input_shape=None):
        shape = (None, None, self.embedding.size)
        self.embedding.build()
        for block in self.blocks:
            block.build(shape)
        self.norm.build(shape)

    def _weights_below_heads(self):
        embedding = self.embedding
        of_output = {id(embedding.bias), id(embedding.output_table)} - {id(embedding.table)}
        layers = embedding, *self.blocks, self.norm
        return [x for layer in layers for x in layer.weights if id(x) not in of_output]

    def embed(self, ids, start, training=None):
        """Returns the input of the first block, `(batch, length, size)`, of tokens at places."""
        return self.embedding(ids, start=start + self.config.first_position, training=training)
