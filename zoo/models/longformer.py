"""The options and blocks of a Longformer (Beltagy et al. 2020), and its global tokens."""

from keras import ops

from keras_attention import LongformerAttention, TransformerBlock
from keras_attention._checks import is_positive_integer

PROJECTIONS = "query", "key", "value"
EXCLUDED = {  # options of a text encoder that `windows` exclude, with their defaults
    "position": "learned",
    "window": None,
    "relative_buckets": 0,
    "num_key_value_heads": None,
    "query_key_norm": None,
    "first_norm": True,
}


def require_longformer(config):
    """Raises a `ValueError` if the windows are none, or other options exclude them.

    Args:
        config: A `TextEncoderConfig` with `windows`.
    """
    windows, number = config.windows, config.num_layers
    is_list = isinstance(windows, list | tuple) and len(windows) == number
    if not is_list or not all(is_positive_integer(x) and x % 2 == 0 for x in windows):
        raise ValueError(
            f"`windows` must be a list of positive even integers, one for each of the {number} "
            f"blocks. Received: windows={windows!r}."
        )
    given = {name: getattr(config, name) for name in EXCLUDED}
    given = {name: value for name, value in given.items() if value != EXCLUDED[name]}
    if not isinstance(config.use_bias, bool):
        given["use_bias"] = config.use_bias
    if given:
        told = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(f"`windows` exclude these options: {told}. Omit them, or `windows`.")
    if config.head == "span" and config.separator_id is None:
        raise ValueError(
            "`windows` with head='span' need the `separator_id`: the tokens before it, those of "
            "the question, are global. Received: separator_id=None. Pass separator_id="
            "tokenizer.end_id."
        )


def longformer_block(config, place, has_global_tokens, dtype):
    """Returns a block.

    Args:
        config: A `TextEncoderConfig` with `windows`.
        place: Its place in the stack.
        has_global_tokens: Whether there are global tokens, so that it needs projections for them.
        dtype: Its dtype policy.
    """
    attention = LongformerAttention(
        config.num_heads,
        config.key_dim or config.size // config.num_heads,
        dropout=config.attention_dropout,
        use_bias=config.use_bias,
        window=config.windows[place],
        num_global_tokens=1 if has_global_tokens else 0,
        dtype=dtype,
        name="attention",
    )
    return TransformerBlock(
        attention,
        config.hidden,
        config.normalize,
        config.epsilon,
        config.dropout,
        config.hidden_dropout,
        config.activation,
        config.use_bias,
        norm=config.norm,
        gated=config.gated,
        dtype=dtype,
        name=f"block_{place}",
    )


def begin_block_with(block, other):
    """Copies the weights of another block.

    If that has no global tokens, their projections begin with the weights of the others, as in the
    paper.

    Args:
        block, other: Built blocks around `LongformerAttention`.
    """
    for name in ("attention_norm", "feed_forward", "feed_forward_norm"):
        getattr(block, name).set_weights(getattr(other, name).get_weights())
    own, trained = block.attention, other.attention
    for name in (*PROJECTIONS, "output"):
        _projection(own, name).set_weights(_projection(trained, name).get_weights())
    if own.num_global_tokens:
        for name in PROJECTIONS:
            source = f"global_{name}" if trained.num_global_tokens else name
            _projection(own, f"global_{name}").set_weights(
                _projection(trained, source).get_weights()
            )


def before_first(token_id, ids):
    """Returns whether tokens stand before the first one with this id, as those of a question.

    Args:
        token_id: The id.
        ids: int32 `(batch, length)`.

    Returns:
        Booleans `(batch, length)`.

    Example:

    >>> before_first(2, np.array([[0, 7, 2, 2, 9, 2]])).numpy().astype(int).tolist()
    [[1, 1, 0, 0, 0, 0]]
    """
    return ops.cumsum(ops.cast(ops.equal(ids, token_id), "int32"), axis=1) < 1


def _projection(attention, name):
    return getattr(attention, f"{name}_projection")
