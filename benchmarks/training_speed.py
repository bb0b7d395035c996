"""Training speed of a small language model on the CPU, compared with keras.layers and PyTorch.

python -m benchmarks.training_speed
python -m benchmarks.training_speed --dtype bfloat16 --activation squared_relu --compile

All three train the same model, with pre-LN blocks, learned positions, and tied input and output
embeddings. The contenders take turns in every round, one at a time. PyTorch runs in a separate
process; its autocast to bfloat16 is compared with the `mixed_bfloat16` policy of Keras. The ratio
is the median over the rounds of the zoo's tokens per second divided by the contender's, in the same
dtype. Without a GPU, `jit_compile="auto"` of Keras is `False`, which is what is measured; `--jit`
adds XLA.

The machine should be idle: the threads of PyTorch wait for one another after every operation, so
other programs slow it down more than TensorFlow. On a busy machine, use `--threads 1`.
"""

import concurrent.futures
import functools
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import click
import numpy as np

WORKER = "__mp_main__"  # what multiprocessing calls this file in a process that it starts
if __name__ == WORKER:
    import torch
    from torch import nn
    from torch.nn import functional
else:  # TensorFlow and PyTorch do not share a process
    import keras
    import tensorflow as tf
    from keras import layers, ops

    from zoo.losses import TokenCrossentropy
    from zoo.models.transformer_lm import TransformerLanguageModel

LAYERS, SIZE, HIDDEN, DROPOUT = 4, 256, 1024, 0.1
BATCH, CONTEXT = 16, 256
SPECIAL = 3  # padding, start and end, before the bytes
VOCABULARY = SPECIAL + 256
LEARNING_RATE, WEIGHT_DECAY, CLIPNORM = 1e-3, 0.1, 1.0
ACTIVATIONS = ("gelu", "squared_relu")


class Contender(NamedTuple):
    """A model in training."""

    weights: int
    train: Callable  # number of steps -> (tokens per second, loss of the first step)


def random_batch():
    """Returns inputs and labels (the next tokens), int32 `(batch, context)`."""
    size = (BATCH, CONTEXT + 1)
    tokens = np.random.default_rng(0).integers(SPECIAL, VOCABULARY, size, dtype="int32")
    return tokens[:, :-1], tokens[:, 1:]


def timed(step, steps):
    """Returns the tokens per second over `steps` steps, and the loss of the first step."""
    start = time.perf_counter()
    losses = [step() for _ in range(steps)]
    return steps * BATCH * CONTEXT / (time.perf_counter() - start), losses[0]


# --------------------------------------------------------------------------------- zoo and Keras


def keras_contenders(dtype, heads, activation, jit):
    """Returns label -> contender for the models trained with Keras."""
    keras.config.set_dtype_policy("float32" if dtype == "float32" else "mixed_bfloat16")
    keras_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    contenders = {}
    for jit_compile in (False, True) if jit else (False,):
        suffix = ", XLA" if jit_compile else ""
        ours, peer = zoo_model(heads, activation), keras_model(heads, activation)
        contenders["zoo" + suffix] = in_keras(ours, TokenCrossentropy(), jit_compile)
        contenders["keras.layers" + suffix] = in_keras(peer, keras_loss, jit_compile)
    return contenders


def in_keras(model, loss, jit_compile):
    optimizer = keras.optimizers.AdamW(
        LEARNING_RATE, weight_decay=WEIGHT_DECAY, global_clipnorm=CLIPNORM
    )
    model.compile(optimizer, loss, weighted_metrics=[], jit_compile=jit_compile)
    inputs, labels = random_batch()

    def step():  # the loss is a mean over all steps so far
        return float(model.train_on_batch(inputs, labels, return_dict=True)["loss"])

    return Contender(model.count_params(), functools.partial(timed, step))


def zoo_model(heads, activation):
    model = TransformerLanguageModel(
        VOCABULARY,
        num_layers=LAYERS,
        size=SIZE,
        num_heads=heads,
        hidden=HIDDEN,
        context_length=CONTEXT,
        position="learned",
        activation=activation,
        dropout=DROPOUT,
    )
    model.build()
    # Unscaled, the large initial table predicts each input token again, for a loss of about 9.
    model.embedding.table.assign(model.embedding.table / math.sqrt(SIZE))
    return model


def keras_model(heads, activation):
    """Returns the same model made of Keras layers."""
    ids = keras.Input((CONTEXT,), dtype="int32")
    tokens = layers.ReversibleEmbedding(VOCABULARY, SIZE)
    ones = ops.ones_like(ops.take(ids, [0], axis=0))  # (1, length)
    places = ops.cumsum(ones, axis=1) - 1
    x = tokens(ids) + layers.Embedding(CONTEXT, SIZE)(places)
    x = layers.Dropout(DROPOUT)(x)
    for _ in range(LAYERS):
        x = keras_block(x, heads, activation)
    x = layers.LayerNormalization(epsilon=1e-5)(x)
    return keras.Model(ids, tokens(x, reverse=True))


def keras_block(x, heads, activation):
    activation = squared_relu if activation == "squared_relu" else activation
    attention = layers.MultiHeadAttention(heads, SIZE // heads, use_bias=False)
    query = layers.LayerNormalization(epsilon=1e-5)(x)
    added = attention(query, query, use_causal_mask=True)
    x = x + layers.Dropout(DROPOUT)(added)
    added = layers.LayerNormalization(epsilon=1e-5)(x)
    added = layers.Dense(HIDDEN, activation, use_bias=False)(added)
    added = layers.Dense(SIZE, use_bias=False)(added)
    return x + layers.Dropout(DROPOUT)(added)


def squared_relu(x):
    return ops.square(ops.relu(x))


# --------------------------------------------------------------------------------------- PyTorch

IN_WORKER = {}  # key -> function that runs one step; filled in the PyTorch process


def torch_contenders(pool, dtype, heads, activation, compiled):
    """Returns label -> contender for the models trained with PyTorch, in the process of a pool."""
    contenders = {}
    for label in ("PyTorch", "PyTorch, compiled") if compiled else ("PyTorch",):
        arguments = dtype, heads, activation, label != "PyTorch"
        weights = pool.submit(start_torch, *arguments).result()
        train = functools.partial(torch_round, pool, arguments)
        contenders[label] = Contender(weights, train)
    return contenders


def torch_round(pool, key, steps):
    return pool.submit(timed_in_worker, key, steps).result()


def timed_in_worker(key, steps):
    return timed(IN_WORKER[key], steps)


def set_torch_threads(threads):
    torch.set_num_threads(threads)


def start_torch(dtype, heads, activation, compiled):
    """Prepares a model for training and returns its number of weights."""
    model = torch_model()
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    inputs, labels = (torch.from_numpy(tokens.astype("int64")) for tokens in random_batch())
    loss_of = torch.compile(torch_loss) if compiled else torch_loss

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = loss_of(model, inputs, labels, heads, activation)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, CLIPNORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    IN_WORKER[dtype, heads, activation, compiled] = step
    return sum(weight.numel() for weight in weights)


def torch_model():
    """Returns the layers, initialized as in nanoGPT."""
    model = nn.ModuleDict(
        {
            "tokens": nn.Embedding(VOCABULARY, SIZE),
            "positions": nn.Embedding(CONTEXT, SIZE),
            "blocks": nn.ModuleList(torch_block() for _ in range(LAYERS)),
            "norm": nn.LayerNorm(SIZE),
        }
    )
    for weight in model.parameters():
        if weight.ndim == 2:
            nn.init.normal_(weight, std=0.02)
    return model


def torch_block():
    return nn.ModuleDict(
        {
            "attention_norm": nn.LayerNorm(SIZE),
            "query_key_value": nn.Linear(SIZE, 3 * SIZE, bias=False),
            "output": nn.Linear(SIZE, SIZE, bias=False),
            "feed_forward_norm": nn.LayerNorm(SIZE),
            "inner": nn.Linear(SIZE, HIDDEN, bias=False),
            "outer": nn.Linear(HIDDEN, SIZE, bias=False),
        }
    )


def torch_loss(model, ids, labels, heads, activation):
    places = torch.arange(CONTEXT)
    x = functional.dropout(model.tokens(ids) + model.positions(places), DROPOUT)
    for block in model.blocks:
        x = x + functional.dropout(torch_attention(block, x, heads), DROPOUT)
        x = x + functional.dropout(torch_feed_forward(block, x, activation), DROPOUT)
    logits = functional.linear(model.norm(x), model.tokens.weight)
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def torch_attention(block, x, heads):
    parts = block.query_key_value(block.attention_norm(x)).split(SIZE, dim=2)
    parts = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in parts)
    context = functional.scaled_dot_product_attention(*parts, is_causal=True)
    return block.output(context.transpose(1, 2).flatten(2))


def torch_feed_forward(block, x, activation):
    x = block.inner(block.feed_forward_norm(x))
    x = functional.gelu(x) if activation == "gelu" else functional.relu(x).square()
    return block.outer(x)


# ------------------------------------------------------------------------------------ measurement


def use_threads(threads):
    """Makes TensorFlow use the CPU with as many threads as PyTorch."""
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def worker(threads):
    """Returns a pool of one process, for PyTorch."""
    return concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), set_torch_threads, (threads,)
    )


def measure(contenders, rounds, steps):
    """Returns the initial losses, and the tokens per second of all rounds, by contender."""
    losses = {key: contender.train(steps)[1] for key, contender in contenders.items()}  # warms up
    rates = {key: [] for key in contenders}
    for _ in range(rounds):
        for key, contender in contenders.items():
            rates[key].append(contender.train(steps)[0])
    return losses, rates


def require_alike(contenders, losses):
    """Checks that the models have equally many weights and start from uniform predictions."""
    weights = {key: contender.weights for key, contender in contenders.items()}
    if len(set(weights.values())) > 1:
        raise click.ClickException(f"The models differ in their number of weights: {weights}.")
    for key, loss in losses.items():
        if abs(loss - math.log(VOCABULARY)) > 0.5:
            raise click.ClickException(f"The first loss of {key} is {loss}, not ln({VOCABULARY}).")


def show(contenders, losses, rates):
    click.echo(f"{'':33}{'weights':>9}  {'loss':>5}  {'tokens/s':>8}{'ratio':>26}")
    for (dtype, label), found in rates.items():
        ours = rates[dtype, "zoo"]
        ratio = statistics.median(a / b for a, b in zip(ours, found, strict=True))
        spread = f"({min(found):.0f} to {max(found):.0f})"
        weights, loss = contenders[dtype, label].weights, losses[dtype, label]
        click.echo(
            f"{dtype:10} {label:20}  {weights:9,}  {loss:5.2f}  "
            f"{statistics.median(found):8.0f}  {spread:18}  {ratio:4.2f}"
        )


@click.command()
@click.option("--dtype", "dtypes", type=click.Choice(["float32", "bfloat16"]), multiple=True)
@click.option("--heads", default=4, show_default=True)
@click.option("--activation", type=click.Choice(ACTIVATIONS), default="gelu", show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Measured rounds, after a warm-up.")
@click.option("--steps", default=4, show_default=True, help="Training steps per round.")
@click.option("--threads", default=2, show_default=True, help="Threads of each contender.")
@click.option("--jit", is_flag=True, help="Also train both Keras models with XLA.")
@click.option("--compile", "compiled", is_flag=True, help="Also train with torch.compile.")
def main(dtypes, heads, activation, rounds, steps, threads, jit, compiled):
    """Measure in both dtypes, or only in the given one."""
    use_threads(threads)
    contenders = {}
    with worker(threads) as pool:
        for dtype in dtypes or ("float32", "bfloat16"):
            of_dtype = keras_contenders(dtype, heads, activation, jit)
            of_dtype |= torch_contenders(pool, dtype, heads, activation, compiled)
            contenders |= {(dtype, label): each for label, each in of_dtype.items()}
        losses, rates = measure(contenders, rounds, steps)
    require_alike(contenders, losses)
    show(contenders, losses, rates)


if __name__ == "__main__":
    main()
