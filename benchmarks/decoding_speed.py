"""Decoding speed of the Transformer translator compared with CTranslate2 and KerasHub, on the CPU.

python -m benchmarks.decoding_speed
python -m benchmarks.decoding_speed --translate NAME --data-dir /path/to/multi30k

The first command prints milliseconds per step, from source tokens to target tokens, for random
float32 models of the same sizes that run a fixed number of steps. The KerasHub model is BART, which
differs only in its learned positions and GELU. "Products" are the matrix products of the zoo's step
and nothing else: a lower bound on the time of a step in TensorFlow.

The second command prints sentences per second, from strings to strings, on the test set, with
sacreBLEU: for both libraries in float32, for the zoo in bfloat16 and for CTranslate2 in int8. The
zoo, without XLA, has two batches at work at a time, and a thread for each operation; so does
CTranslate2 with two workers, of one thread each.
Before either measurement, CTranslate2 must produce the same tokens as the zoo with random models.

The contenders take turns in one process. The ratio is a contender's median time divided by that of
the first one. With several threads, only an idle machine is fair to CTranslate2: its threads
wait for one another in every operation, so a busy core that delays one of them delays them all.
"""

import functools
import itertools
import os
import pathlib
import statistics
import time

import click
import keras
import keras_hub
import numpy as np
import tensorflow as tf

import zoo
from benchmarks import _ctranslate2
from zoo import decoding
from zoo.data.pairs import sources_and_references
from zoo.metrics.bleu import sacrebleu_score
from zoo.models.transformer_nmt import TransformerTranslator
from zoo.training import recipes

SOURCE_LENGTH, TEST_BATCH = 16, 64
SAMPLERS = {
    "greedy": decoding.GreedySampler(),
    "beam 4": decoding.BeamSampler(num_beams=4, exact=False),
}
TRANSLATION_SAMPLERS = {
    "greedy": decoding.GreedySampler(),
    "beam 5": decoding.BeamSampler(num_beams=5, exact=False),
}
RECIPE = "transformer_nmt_multi30k_en_de"


def zoo_steps(core, sampler, tokens, jit):
    """Decoding with the zoo; the end token is outside the vocabulary, so that no text ends."""

    @tf.function(jit_compile=jit, autograph=False)
    def run(source):
        decoded = decoding.decode(
            core.step,
            *core.start(source, tokens),
            sampler,
            start_id=_ctranslate2.START_ID,
            end_id=core.config.vocabulary_size,
            max_lengths=tf.fill([source.shape[0]], tokens),
            max_length=tokens,
            jit_compile=jit,
        )
        return decoded.token_ids

    return lambda source: run(tf.constant(source)).numpy()[:, 0]


def products(core, beams, tokens, jit):
    """The matrix products of the decoder over `tokens` steps, with nothing in between."""
    of_source = "cross_attention/key", "cross_attention/value"  # computed only once
    kernels = [
        weight
        for block in core.decoder
        for weight in block.weights
        if weight.path.endswith("kernel") and not any(part in weight.path for part in of_source)
    ]
    table = tf.Variable(tf.transpose(core.embedding.table))

    def step(number, x):
        for kernel in kernels:
            x = tf.matmul(x, kernel)
        best = tf.reduce_max(tf.matmul(x, table), axis=-1, keepdims=True)
        return number + 1, tf.clip_by_value(x + best, -1.0, 1.0)

    @tf.function(jit_compile=jit, autograph=False)
    def run(x):
        return tf.while_loop(lambda number, x: number < tokens, step, (0, x))[1]

    def of_batch(source):
        return run(tf.ones((len(source) * beams, core.config.size))).numpy()

    return of_batch


def ctranslate2_steps(translator, sampler, tokens, pieces):
    options = _ctranslate2.AS_HERE | {"min_decoding_length": tokens, "max_decoding_length": tokens}

    def run(source):
        source = [[pieces[token] for token in row] for row in source]
        results = translator.translate_batch(source, beam_size=sampler.num_beams, **options)
        return [result.hypotheses[0] for result in results]

    return run


def keras_hub_steps(config, tokens):
    """Greedy decoding with KerasHub, compiled with XLA."""
    backbone = keras_hub.models.BartBackbone(
        config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.size,
        intermediate_dim=config.hidden,
        max_sequence_length=max(tokens + 1, SOURCE_LENGTH),
    )
    model = keras_hub.models.BartSeq2SeqLM(backbone)
    model.compile(sampler=keras_hub.samplers.GreedySampler(), jit_compile=True)

    def run(source):
        is_start = np.arange(tokens + 1)[None] == np.zeros((len(source), 1))
        inputs = {
            "encoder_token_ids": source,
            "encoder_padding_mask": np.ones_like(source),
            "decoder_token_ids": is_start.astype("int32") * _ctranslate2.START_ID,
            "decoder_padding_mask": is_start.astype("int32"),
        }
        return model.generate(inputs, stop_token_ids=None)["decoder_token_ids"][:, 1:]

    return run


def measure_steps(hidden, tokens, batches, rounds, threads):
    """Prints the table of the first command."""
    core = TransformerTranslator(8000, num_layers=2, size=256, num_heads=8, hidden=hidden)
    core.build()
    pieces = _ctranslate2.pieces_of(8000)
    others = with_threads(core, pieces, threads)
    peer = keras_hub_steps(core.config, tokens)
    for (label, sampler), batch in itertools.product(SAMPLERS.items(), batches):
        contenders = {
            "zoo, XLA": zoo_steps(core, sampler, tokens, jit=True),
            "zoo": zoo_steps(core, sampler, tokens, jit=False),
        }
        for name, translator in others.items():
            contenders[name] = ctranslate2_steps(translator, sampler, tokens, pieces)
        if label == "greedy":
            contenders["KerasHub, XLA"] = peer
        beams = sampler.num_beams
        bounds = {
            "products, XLA": products(core, beams, tokens, jit=True),
            "products": products(core, beams, tokens, jit=False),
        }
        source = np.random.default_rng(0).integers(3, 8000, (batch, SOURCE_LENGTH), "int32")
        seconds, found = take_turns(contenders | bounds, source, rounds)
        if any(np.shape(found[name]) != (batch, tokens) for name in contenders):
            raise AssertionError(f"Not all contenders decoded {tokens} tokens.")
        print_table(f"{label}, batch {batch:2}", seconds, lambda x: x / tokens * 1e3, "ms/step")


def measure_translation(name, data_dir, rounds, threads):
    """Prints the table of the second command."""
    model, small = zoo.load(name), zoo.load(name, dtype="bfloat16")
    pairs = recipes.RECIPES[RECIPE].load("test_2016_flickr", data_dir)
    sources, references = sources_and_references(pairs)
    library = model.tokenizer.to_library()
    pieces = list(map(library.id_to_token, range(library.get_vocab_size())))
    others = with_threads(model.core, pieces, threads)
    one_each = {"threads": 1, "workers": threads}
    for compute_type in ("float32", "int8"):
        others[f"CTranslate2, {threads} workers, {compute_type}"] = _ctranslate2.in_ctranslate2(
            model.core, pieces, compute_type=compute_type, **one_each
        )
    for label, sampler in TRANSLATION_SAMPLERS.items():
        options = {"sampler": sampler, "batch_size": TEST_BATCH}
        contenders = {
            "zoo": functools.partial(model.translate, **options),
            "zoo, bfloat16": functools.partial(small.translate, **options),
        }
        for other, translator in others.items():
            contenders[other] = functools.partial(
                _ctranslate2.translate, translator, library, sampler.num_beams, TEST_BATCH
            )
        seconds, found = take_turns(contenders, sources, rounds)
        print_table(label, seconds, lambda x: len(sources) / x, "sentences/s")
        first, texts = next(iter(found.items()))
        for other, translated in found.items():
            same = sum(ours == theirs for ours, theirs in zip(texts, translated, strict=True))
            bleu = sacrebleu_score(translated, references).score
            click.echo(
                f"{label:18} {other:32} {bleu:8.2f} sacreBLEU, {same} of {len(texts)} texts equal "
                f"those of {first}"
            )


def with_threads(core, pieces, threads):
    """Returns label -> CTranslate2 translator, with `threads` threads and with one."""
    return {
        f"CTranslate2, threads {number}": _ctranslate2.in_ctranslate2(core, pieces, number)
        for number in sorted({threads, 1}, reverse=True)
    }


def take_turns(contenders, argument, rounds):
    """Calls the contenders in turn, once to warm up and then `rounds` times.

    Returns:
        Label -> list of seconds, and label -> result of the last round.
    """
    seconds = {label: [] for label in contenders}
    for round_number in range(rounds + 1):
        found = {}
        for label, run in contenders.items():
            start = time.perf_counter()
            found[label] = run(argument)
            if round_number > 0:
                seconds[label].append(time.perf_counter() - start)
    return seconds, found


def print_table(title, seconds, convert, unit):
    first = statistics.median(next(iter(seconds.values())))
    for label, found in seconds.items():
        median = statistics.median(found)
        low, high = sorted((convert(min(found)), convert(max(found))))
        click.echo(
            f"{title:18} {label:32} {convert(median):8.2f} {unit} ({low:.2f} to {high:.2f})  "
            f"ratio {median / first:5.2f}"
        )


@click.command()
@click.option("--translate", "name", help="Name or folder of a Transformer translator.")
@click.option(
    "--data-dir", type=click.Path(path_type=pathlib.Path), help="Multi30k folder, for --translate."
)
@click.option("--hidden", default=1024, show_default=True, help="Hidden size of the feed-forward.")
@click.option("--tokens", default=48, show_default=True, help="Fixed number of steps.")
@click.option(
    "--batch", "batches", default=(1, 8, 32), multiple=True, show_default=True, help="Batch sizes."
)
@click.option("--rounds", default=15, show_default=True, help="Measured rounds, after a warm-up.")
@click.option("--threads", default=2, show_default=True, help="Threads of each contender.")
def main(name, data_dir, hidden, tokens, batches, rounds, threads):
    """Measure decoding or, with --translate, translation of the Multi30k test set."""
    tf.config.threading.set_intra_op_parallelism_threads(1 if name else threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    click.echo(f"{os.cpu_count()} cores, {threads} threads, load {os.getloadavg()[0]:.1f}")
    keras.utils.set_random_seed(0)
    for normalize in ("post", "pre"):
        _ctranslate2.require_same_tokens(normalize)
    if name:
        measure_translation(name, data_dir, rounds, threads)
    else:
        measure_steps(hidden, tokens, batches, rounds, threads)


if __name__ == "__main__":
    main()
