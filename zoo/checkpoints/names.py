"""The names of the zoo's weights in checkpoints, and the conversion in both directions."""

import collections
import math
import re
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

LARGE = 2**22  # numbers that are read at a time
_OF_WEIGHT_NORM = {
    ".weight_g": ".parametrizations.weight.original0",
    ".weight_v": ".parametrizations.weight.original1",
}


class Part(NamedTuple):
    """A part of a tensor, or of the weight and the bias of a layer, along an axis.

    Attributes:
        name: Name of the tensor, or of the layer.
        axis: The axis to slice; -1 is the axis of outputs of a layer.
        start, stop: The slice; `stop` may be `None` for the end.
        separator: What comes in the file between the name of a layer and that of a tensor.
        heads: Number of equal sections of the axis, each of which is sliced: where queries, keys
            and values alternate head by head.
    """

    name: str
    axis: int
    start: int
    stop: int | None
    separator: str = "."
    heads: int = 1


class OneLess(NamedTuple):
    """A normalization whose scale is 1 less in the file, as in Gemma.

    Attributes:
        name: Name of the layer.
    """

    name: str


class Turned(NamedTuple):
    """A tensor whose axes are in the reverse order in the file.

    Attributes:
        name: Name of the tensor.
    """

    name: str


class Grid(NamedTuple):
    """A table whose rows are the places of a grid, and whose columns are the first axis here.

    Attributes:
        name: Name of the tensor.
    """

    name: str


class Names(NamedTuple):
    """The names of a family of checkpoints.

    Attributes:
        table: Dictionary from the path of a layer or a weight of the core, such as
            `"blocks.{}.attention.query_projection"`, to its name in the file, a `Part`, `OneLess`,
            `Turned` or `Grid`. `{}` stands for the number of a block.
        prefix: Prefix of the names of the base model, absent in files of a model without a head.
        tied: Dictionary from tensors that a file may duplicate to the ones they equal.
        unused: Regular expressions of tensors that the core deliberately does not use.
        fresh: Paths of layers that keep their initial weights if the file has none for them.
        new_head: Table of the layers of a new head, which are not read from the file, but written.
        new_settings: Dictionary of the settings of a model with that head; empty if transformers
            has no such model.
        upright: Prefix of the names of dense layers whose kernels are `(inputs, outputs)` in the
            file; those of others are `(outputs, inputs)`.
        carried: Names of unused tensors that a model with a new head has in transformers, too.
    """

    table: dict
    prefix: str = ""
    tied: dict = {}  # noqa: RUF012
    unused: tuple = ()
    fresh: tuple = ()
    upright: str | None = None
    new_head: dict = {}  # noqa: RUF012
    new_settings: dict = {}  # noqa: RUF012
    carried: tuple = ()

    def with_new_head(self, layer, settings):
        """Returns the names of a model in which a dense layer is new.

        Args:
            layer: Path of the layer in the table.
            settings: Dictionary of the settings of a model with that head.
        """
        name = self.table[layer]
        return self._replace(
            table={path: each for path, each in self.table.items() if path != layer},
            unused=(*self.unused, rf"{re.escape(name)}\.(weight|bias)"),
            fresh=(layer,),
            new_head={layer: name},
            new_settings=settings,
        )

    def with_trained_head(self):
        """Returns the names of a model whose new head is in the files."""
        return self._replace(table={**self.table, **self.new_head}, fresh=())


class _Entry(NamedTuple):
    """A weight of the core, and its tensor in the file."""

    weight: keras.Variable
    name: str
    turn: tuple | None  # the axes of the tensor, in the order of the weight
    part: Part | None
    more: float = 0.0  # by how much it is larger than the tensor


def with_output(table, output, is_tied):
    """Returns the table and the tied tensors of a model that writes.

    Args:
        table: Table of `Names`, without the output layer.
        output: Name of the tensor of the output layer.
        is_tied: Whether that is the embedding table.
    """
    if is_tied:
        return table, {output: table["embedding.table"]}
    return {**table, "embedding.output_table": output}, {}


def fill(core, files, names):
    """Fills a core with the weights of a file, one tensor after the other.

    Args:
        core: A built model of tensors.
        files: `TensorFiles`.
        names: `Names`.

    Raises:
        ValueError: If a weight of the core is not in the file, has another shape there, or is not
            finite; if a tensor of the file has no place in the core. The core must not be used
            then.
    """
    left = {modern(name): name for name in files.shapes}
    local = namer(left, names)
    may_stay = {id(weight) for path in names.fresh for weight in _at(core, path).weights}
    found, missing, named = {}, [], set()
    for entry in _entries(core, names):
        named.add(id(entry.weight))
        name = local(entry.name)
        if name in left:
            found.setdefault(name, []).append(entry)
        elif id(entry.weight) not in may_stay:
            missing.append(f"{name} (for {entry.weight.path})")
    if missing:
        raise ValueError(f"The file lacks tensors that the model needs: {', '.join(missing)}.")
    nameless = [
        weight.path
        for weight in core.weights
        if id(weight) not in named | may_stay and not _is_state(weight)
    ]
    if nameless:
        raise ValueError(f"No tensor belongs to these weights: {', '.join(nameless)}.")
    for name, entries in found.items():
        _fill_from(files, left[name], entries)
    _require_all_used(left, found, files, names, local)


def _fill_from(files, name, entries):
    """Fills the weights that a tensor of a file holds; it is freed before the next one is read."""
    shape = files.shapes[name]
    if len(entries) == 1 and _is_large_table(entries[0], shape):
        step = max(1, LARGE // math.prod(shape[1:]))
        for first in range(0, shape[0], step):
            rows = files.read(name, first, first + step)
            _write(entries[0].weight, _finite(rows, entries[0]), first)
        return
    tensor = files.read(name)
    for entry in entries:
        _write(entry.weight, _of_tensor(tensor, entry))


def _require_all_used(left, found, files, names, local):
    tied = {local(copy): local(original) for copy, original in names.tied.items()}
    unknown = []
    for name in left.keys() - found.keys():
        if name in tied and tied[name] in left:
            if not np.array_equal(files.read(left[name]), files.read(left[tied[name]])):
                raise ValueError(
                    f"{name} and {tied[name]} differ in the file, and are one table in the model: "
                    "untied weights are not implemented here."
                )
        elif not any(re.fullmatch(pattern, name) for pattern in names.unused):
            unknown.append(name)
    if unknown:
        raise ValueError(
            "The file has tensors that the model has no place for: "
            f"{', '.join(sorted(unknown))}. It does not match its config."
        )


def tensors_of(core, names):
    """Yields the name and the array of each tensor of a core's file: the inverse of `fill`."""
    parts = collections.defaultdict(list)
    for entry in _entries(core, names):
        array = np.array(entry.weight)
        if entry.turn is not None:
            if len(entry.turn) < array.ndim:  # a `Grid`
                array = array.reshape(len(array), -1)
            array = np.transpose(array, np.argsort(entry.turn))
        if entry.more:
            array = array - np.float32(entry.more)
        if entry.part is None:
            yield entry.name, array
        else:
            if entry.turn is None and entry.part.axis > 0:  # a table whose axes were dropped
                array = array.reshape((1,) * entry.part.axis + (-1, array.shape[-1]))
            parts[entry.name].append((entry.part, array))
    for name, pieces in parts.items():
        pieces.sort(key=lambda piece: piece[0].start)
        axis = pieces[0][0].axis if pieces[0][1].ndim > 1 else 0
        axis, heads = axis % pieces[0][1].ndim, pieces[0][0].heads
        joined = np.concatenate([_of_heads(array, axis, heads) for _, array in pieces], axis + 1)
        yield name, joined.reshape(*joined.shape[:axis], -1, *joined.shape[axis + 2 :])


def _entries(core, names):
    """Yields the `_Entry` of every weight in the table."""
    for path, rule in names.table.items():
        if "{}" not in path:
            yield from _of_object(_at(core, path), rule, "", names.upright)
            continue
        stack, _, rest = path.partition(".{}.")
        for number, block in enumerate(_at(core, stack)):
            yield from _of_object(_at(block, rest), rule, number, names.upright)


def _of_object(found, rule, number, upright):
    """Yields the `_Entry` of every weight of a layer, or of a weight."""
    part = rule if isinstance(rule, Part) else None
    name = (rule if isinstance(rule, str) else rule.name).format(number)
    if isinstance(found, keras.Variable):
        turn = (1, 0) if isinstance(rule, Grid) else None
        if isinstance(rule, Turned):
            turn = tuple(reversed(range(len(found.shape))))
        yield _Entry(found, name, turn, part)
    elif isinstance(found, keras.layers.Dense):
        is_upright = upright is not None and name.startswith(upright)
        turn = None if is_upright else (1, 0)
        cut = part
        if part is not None and not is_upright:  # the axis of outputs is the first one in the file
            cut = part._replace(axis=0)
        name += "." if part is None else part.separator
        yield _Entry(found.kernel, f"{name}weight", turn, cut)
        if found.bias is not None:
            yield _Entry(found.bias, f"{name}bias", None, part and part._replace(axis=0))
    elif isinstance(found, keras.layers.LayerNormalization):
        yield _Entry(found.gamma, f"{name}.weight", None, part)
        if found.beta is not None:
            yield _Entry(found.beta, f"{name}.bias", None, part)
    elif isinstance(found, keras.layers.RMSNormalization):
        more = 1.0 if isinstance(rule, OneLess) else 0.0
        yield _Entry(found.scale, f"{name}.weight", None, part, more)
    elif isinstance(found, keras.layers.Conv1D | keras.layers.Conv2D):
        axes = range(2, found.rank + 2)  # in the file behind the channels: outputs, inputs
        yield _Entry(found.kernel, f"{name}.weight", (*axes, 1, 0), part)
        if found.bias is not None:
            yield _Entry(found.bias, f"{name}.bias", None, part)
    elif not isinstance(found, keras.layers.Identity):
        raise TypeError(f"{name}: no rule for {type(found).__name__}.")


def _of_tensor(tensor, entry):
    """Returns the array of a weight."""
    part = entry.part
    if part is not None and tensor.shape[part.axis] % part.heads == 0:
        tensor = _sliced(tensor, part)
    array = tensor if entry.turn is None else np.transpose(tensor, entry.turn)
    shape = tuple(entry.weight.shape)
    squeezed = [size for size in array.shape if size != 1], [size for size in shape if size != 1]
    is_split = entry.turn is not None and len(entry.turn) < len(shape)  # a `Grid`
    is_grid = (part is not None or is_split) and array.size == np.prod(shape)
    if squeezed[0] != squeezed[1] and not is_grid:
        raise ValueError(
            f"{entry.name} has the shape {tuple(tensor.shape)} in the file, and {entry.weight.path}"
            f" of the model needs {shape}."
        )
    array = _finite(array, entry).reshape(shape)
    return array + np.float32(entry.more) if entry.more else array


def _sliced(tensor, part):
    """Returns the slice of a tensor that is a part of it."""
    axis = part.axis % tensor.ndim
    tensor = _of_heads(tensor, axis, part.heads)
    rows = range(*slice(part.start, part.stop).indices(tensor.shape[axis + 1]))
    taken = np.take(tensor, rows, axis + 1)
    return taken.reshape(*taken.shape[:axis], -1, *taken.shape[axis + 2 :])


def _of_heads(array, axis, heads):
    """Splits an axis into the heads and what each of them has."""
    return array.reshape(*array.shape[:axis], heads, -1, *array.shape[axis + 1 :])


def _finite(array, entry):
    """Returns the numbers of a weight as float32."""
    array = np.asarray(array, "float32")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{entry.name} holds numbers that are not finite.")
    return array


def _write(weight, rows, first=0):
    """Writes rows of a weight in place, without memory for a second copy."""
    if _is_distributed(weight) or len(weight.shape) == 0:
        weight.assign(rows)
    else:  # `value[first:last].assign` would read the weight, too, and so copy it
        tf.raw_ops.ResourceStridedSliceAssign(
            ref=weight.value.handle,
            begin=[first],
            end=[first + len(rows)],
            strides=[1],
            value=tf.cast(rows, weight.dtype),
        )


def _is_large_table(entry, shape):
    """Whether a weight is so large that it is filled a few rows at a time."""
    is_plain = entry.turn is None and entry.part is None and not entry.more
    is_plain = is_plain and tuple(entry.weight.shape) == shape
    return is_plain and not _is_distributed(entry.weight) and math.prod(shape) > LARGE


def _is_distributed(weight):
    return isinstance(weight.value, tf.distribute.DistributedValues)


def _at(owner, path):
    for step in path.split("."):
        owner = owner[int(step)] if step.isdigit() else getattr(owner, step)
    return owner


def namer(found, names):
    """Returns the function from a name in the table to the name in a file.

    Args:
        found: The names in the file.
        names: `Names`. A file of a model without a head leaves out the prefix.
    """
    if any(name.startswith(names.prefix) for name in found):
        return lambda name: name
    return lambda name: name.removeprefix(names.prefix)


def modern(name):
    """Renames the weight and the bias of a normalization from old TensorFlow checkpoints, and the
    parts of a kernel with weight normalization from older versions of PyTorch.
    """
    for old, new in _OF_WEIGHT_NORM.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    if name.endswith("LayerNorm.gamma"):
        return name.removesuffix("gamma") + "weight"
    return name.removesuffix("beta") + "bias" if name.endswith("LayerNorm.beta") else name


def _is_state(weight):
    """Whether a weight is not learned, but the state of a random number generator."""
    return not keras.backend.is_float_dtype(weight.dtype)
