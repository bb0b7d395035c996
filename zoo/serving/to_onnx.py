"""Writes ONNX files with `tf2onnx`."""

import logging

import numpy as np
import tensorflow as tf

OPSET = 18  # of October 2022: what run-times of since then understand


def write_onnx(folder, core, parts):
    """Writes a file for each graph, such as `start.onnx` and `step.onnx`.

    Raises:
        ImportError: If `tf2onnx` is not installed.
        ValueError: If the model has operations that ONNX lacks.
    """
    for name, (function, signature) in parts.graphs(core).items():
        function = tf.function(function, signature, autograph=False)
        (folder / f"{name}.onnx").write_bytes(_converted(function.get_concrete_function()))


def _converted(function):
    """Returns the bytes of an ONNX file for a concrete function."""
    try:
        import onnx
        from tf2onnx import optimizer, tf_loader, tfonnx
    except ImportError as error:
        raise ImportError(
            'format="onnx" needs the `tf2onnx` library: pip install "keras-attention-zoo[onnx]"'
        ) from error
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)  # what counts is checked below
    inputs = [each.name for each in function.inputs if each.dtype != tf.resource]
    outputs = [each.name for each in function.outputs]
    # Results in a dictionary are sorted by name.
    names = [*(name.split(":")[0] for name in inputs), *sorted(function.structured_outputs)]
    # Numbers need no tables of a tokenizer, which TensorFlow would warn that it cannot write.
    function.graph.clear_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
    frozen = tf_loader.from_function(function, inputs, outputs)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen, name="")
        graph = tfonnx.process_tf_graph(
            graph,
            opset=OPSET,
            input_names=inputs,
            output_names=outputs,
            tensors_to_rename=dict(zip([*inputs, *outputs], names, strict=True)),
            custom_op_handlers={name: (function, []) for name, function in OPERATIONS.items()},
        )
        # Those that reshapes go through are wrong for what has two unknown sizes: tf2onnx 1.17
        # writes "as it was", and then takes away the reshape that had made it so.
        names = ["Transpose", "ConstFold", "MergeDuplicatedNodes", "Identity"]
        optimizers = {name: getattr(optimizer, f"{name}Optimizer") for name in names}
        model = optimizer.optimize_graph(graph, optimizers=optimizers).make_model(function.name)
    unknown = sorted(set(_unknown_operations(model.graph, onnx.defs.has)))
    if unknown:
        raise ValueError(
            f"ONNX lacks operations of this model: {', '.join(unknown)}. Export it as a SavedModel "
            'instead: format="tf_saved_model".'
        )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _unknown_operations(graph, is_known):
    """Yields the names of TensorFlow operations that `tf2onnx` did not convert."""
    for node in graph.node:
        if not is_known(node.op_type):
            yield node.op_type
        for attribute in node.attribute:
            yield from _unknown_operations(attribute.g, is_known)


def _einsum(context, node, name, arguments):
    """Expands `...`, which in ONNX must stand for the same number of axes in every operand."""
    equation = node.attr["equation"].s.decode()
    terms, result = equation.split("->")
    terms = terms.split(",")
    letters = [letter for letter in "zyxwvutsrq" if letter not in equation]
    ranks = [len(context.get_shape(each)) for each in node.input]
    hidden = [rank - len(term.replace("...", "")) for rank, term in zip(ranks, terms, strict=True)]

    def spelled(term, number):
        return term.replace("...", "".join(reversed(letters[:number])))

    terms = ",".join(spelled(*each) for each in zip(terms, hidden, strict=True))
    node.set_attr("equation", f"{terms}->{spelled(result, max(hidden))}")
    del node.attr["N"]


def _erfc(context, node, name, arguments):
    """Writes `1 - erf(x)`."""
    inputs, outputs = node.input, node.output
    described = {"shapes": node.output_shapes, "dtypes": node.output_dtypes}
    context.remove_node(name)
    erf = context.make_node("Erf", inputs, **described)
    one = context.make_const(f"{name}_one", np.float32(1))
    operands = [one.output[0], erf.output[0]]
    context.make_node("Sub", operands, name=name, outputs=outputs, **described)


def _select(context, node, name, arguments):
    """Selects; `tf2onnx` multiplies by 0 and 1 instead, which turns infinity into NaN."""
    node.type = "Where"


OPERATIONS = {"Einsum": _einsum, "Erfc": _erfc, "SelectV2": _select}  # what tf2onnx gets wrong
