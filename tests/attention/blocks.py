"""Transformer blocks with random weights, and their equations in float64 NumPy."""

import keras
import numpy as np

from keras_attention.transformer import DecoderBlock, EncoderBlock
from tests.attention import oracle

RNG = np.random.default_rng(0)
BATCH, LENGTH, ENCODED, SIZE = 2, 5, 7, 8
FORMS = [  # of an encoder block
    {"normalize": "post"},
    {"normalize": "pre"},
    {"normalize": "pre", "parallel": True},
    {"normalize": "pre", "parallel": True, "shared_norm": True, "residual_scale": 0.3},
    {"normalize": "sandwich"},
    {"normalize": "sandwich", "parallel": True},
    {"normalize": "output", "residual_scale": 2.0},
]


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def some(*shape):
    return RNG.random(shape) < 0.7


def randomize(layer):
    for variable in layer.weights:
        if "seed" not in variable.path:
            variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))


def encoder(**arguments):
    block = EncoderBlock(2, 12, **arguments)
    block.build((None, None, SIZE))
    randomize(block)
    return block


def decoder(encoded_size=6, **arguments):
    block = DecoderBlock(2, 12, **arguments)
    block.build((None, None, SIZE), (None, None, encoded_size))
    randomize(block)
    return block


def embedded(tokens, size=SIZE):
    return keras.layers.Embedding(50, size, mask_zero=True)(tokens)


def dense(layer, x):
    y = x @ oracle.weight(layer, "kernel")
    return y + oracle.weight(layer, "bias") if layer.use_bias else y


def feed_forward(layer, x):
    return dense(layer.outer, np.maximum(dense(layer.inner, x), 0))


def layer_norm(layer, x):
    centered = x - x.mean(-1, keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + layer.epsilon)
    return normal * oracle.weight(layer, "gamma") + oracle.weight(layer, "beta")


def encoder_block(block, x, mask=None, **given):
    attend = oracle.multi_head_attention
    both = {"query_mask": mask, "value_mask": mask, **given}
    if block.normalize == "post":
        context, weights = attend(block.attention, x, x, **both)
        x = layer_norm(block.attention_norm, x + context)
        x = layer_norm(block.feed_forward_norm, x + feed_forward(block.feed_forward, x))
    else:
        normal = given_to(block, "attention", x)
        context, weights = attend(block.attention, normal, normal, **both)
        scale = block.residual_scale
        attended = x + scale * output(block, "attention", context)
        part = "attention" if block.shared_norm else "feed_forward"
        normal = given_to(block, part, x if block.parallel else attended)
        hidden = feed_forward(block.feed_forward, normal)
        x = attended + scale * output(block, "feed_forward", hidden)
    return x, weights


def given_to(block, part, x):
    """Returns the input of a part, normalized unless its output alone is."""
    return x if block.normalize == "output" else layer_norm(getattr(block, f"{part}_norm"), x)


def output(block, part, added):
    """Returns the output of a part, normalized unless its input alone is."""
    if block.normalize == "pre":
        return added
    name = "norm" if block.normalize == "output" else "output_norm"
    return layer_norm(getattr(block, f"{part}_{name}"), added)


def decoder_block(block, x, encoded, mask=None, encoded_mask=None):
    attend = oracle.multi_head_attention
    to_itself = {"query_mask": mask, "value_mask": mask, "use_causal_mask": True}
    to_encoded = {"query_mask": mask, "value_mask": encoded_mask}
    norms = block.self_attention_norm, block.cross_attention_norm, block.feed_forward_norm
    if block.normalize == "post":
        context, self_weights = attend(block.self_attention, x, x, **to_itself)
        x = layer_norm(norms[0], x + context)
        context, cross_weights = attend(block.cross_attention, x, encoded, **to_encoded)
        x = layer_norm(norms[1], x + context)
        x = layer_norm(norms[2], x + feed_forward(block.feed_forward, x))
    else:
        normal = given_to(block, "self_attention", x)
        context, self_weights = attend(block.self_attention, normal, normal, **to_itself)
        x = x + output(block, "self_attention", context)
        normal = given_to(block, "cross_attention", x)
        context, cross_weights = attend(block.cross_attention, normal, encoded, **to_encoded)
        x = x + output(block, "cross_attention", context)
        hidden = feed_forward(block.feed_forward, given_to(block, "feed_forward", x))
        x = x + output(block, "feed_forward", hidden)
    return x, self_weights, cross_weights


def assert_all_close(found, expected, tolerance):
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(oracle.float64(each), other, atol=tolerance, rtol=tolerance)
