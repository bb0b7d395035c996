"""Where the time goes when a Transformer translates a test set, by TensorFlow's profiler.

python -m benchmarks.decoding_profile NAME --data-dir /path/to/multi30k

Prints the time of the operations of one thread in seconds, and their share of the whole translation
from strings to strings. What is left is spent between operations: on scheduling them, on memory,
and in Python.
"""

import collections
import pathlib
import re
import tempfile
import time

import click
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import zoo
from benchmarks.decoding_speed import RECIPE, TEST_BATCH, TRANSLATION_SAMPLERS
from zoo.data.pairs import sources_and_references
from zoo.training import recipes

# Kinds of operations, as the names that the optimizer of the graph leaves.
KINDS = {
    "products with weights": "MatMul|_MklMatMul|_MklNativeFusedMatMul|_FusedMatMul",
    "products of attention": "BatchMatMulV2|_MklBatchMatMulV2",
    "caches: moved to beams, written, grown": "GatherV2|TensorStridedSliceUpdate|Pad|ConcatV2",
    "softmax of attention and of the vocabulary": "_MklSoftmax|Softmax|LogSoftmax",
    "normalizations": "_MklLayerNorm|FusedBatchNormV3",
    "best tokens": "TopKV2|Max|ArgMax",
    "choices by masks": "SelectV2|LogicalAnd",
    "conversions between dtypes": "Cast",
}
OPERATION = re.compile(r".*[^:]:(_?[A-Z]\w*)")  # the name of a node, and its type


def operations(folder):
    """Yields the type and the seconds of each operation in the profile of a folder."""
    (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    (plane,) = (plane for plane in space.planes if plane.name == "/host:CPU")
    for line in plane.lines:
        for event in line.events:
            found = OPERATION.fullmatch(plane.event_metadata[event.metadata_id].name)
            if found:
                yield found[1], event.duration_ps / 1e12


def profile(run):
    """Calls a function in the profiler.

    Returns:
        Seconds of the call, and kind of operation -> seconds.
    """
    seconds = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            start = time.perf_counter()
            run()
            whole = time.perf_counter() - start
        for operation, duration in operations(folder):
            kinds = (kind for kind, names in KINDS.items() if re.fullmatch(names, operation))
            seconds[next(kinds, "other operations")] += duration
    return whole, seconds


@click.command()
@click.argument("name")
@click.option(
    "--data-dir", type=click.Path(path_type=pathlib.Path), help="Multi30k folder.", required=True
)
@click.option("--dtype", default="bfloat16", show_default=True, help="Dtype of the weights.")
def main(name, data_dir, dtype):
    """Profile the translation of the Multi30k test set by the model NAME."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = zoo.load(name, dtype=dtype)
    pairs = recipes.RECIPES[RECIPE].load("test_2016_flickr", data_dir)
    sources = sorted(sources_and_references(pairs)[0], key=len)
    # One batch after the other, for one thread.
    batches = [sources[at : at + TEST_BATCH] for at in range(0, len(sources), TEST_BATCH)]
    for label, sampler in TRANSLATION_SAMPLERS.items():

        def run(sampler=sampler):
            for batch in batches:
                model.translate(batch, batch_size=TEST_BATCH, sampler=sampler)

        run()
        whole, seconds = profile(run)
        click.echo(f"{label}, {dtype}: {whole:.2f} s")
        seconds["between operations"] = whole - sum(seconds.values())
        for kind, found in seconds.most_common():
            click.echo(f"  {kind:40} {found:6.2f} s  {found / whole:6.1%}")


if __name__ == "__main__":
    main()
