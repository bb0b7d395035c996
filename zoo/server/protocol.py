"""TF Serving's REST protocol: requests and answers in JSON.

https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import binascii
import math

import numpy as np
import tensorflow as tf

from zoo.server.bodies import object_of
from zoo.server.errors import Refused
from zoo.server.signatures import BINARY


def request_of(body, signatures, default):
    """Reads the body of a `:predict` request.

    Args:
        body: `bytes`.
        signatures: Dictionary of names to `Signature`.
        default: Name of the signature if the request names none.

    Returns:
        `(signature, tensors, is_by_rows)`: the signature, a dictionary of NumPy arrays, and whether
        the request came as `instances`.

    Raises:
        Refused: If it does not match the signature.
    """
    content = object_of(body)
    name = content.get("signature_name")
    name = default if name in (None, "") else name
    if not isinstance(name, str) or name not in signatures:
        raise Refused(404, f"There is no signature {name!r}. Signatures: {', '.join(signatures)}.")
    signature = signatures[name]
    if not signature.inputs or any(spec.shape.rank == 0 for spec in signature.inputs):
        raise Refused(
            400, f"The signature {name!r} cannot be served: each input must have the batch first."
        )
    if ("instances" in content) == ("inputs" in content):
        raise Refused(400, "Send either 'instances', row by row, or 'inputs', by name.")
    is_by_rows = "instances" in content
    columns = _columns(content, [spec.name for spec in signature.inputs])
    tensors = {spec.name: _array(columns[spec.name], spec) for spec in signature.inputs}
    return signature, tensors, is_by_rows


def answer_of(outputs, is_by_rows):
    """Returns the JSON of an answer, as a Python object.

    Raises:
        Refused: If it is wanted row by row, and the outputs are no rows.
    """
    lengths = {array.shape[:1] for array in outputs.values()}
    if is_by_rows and (len(lengths) > 1 or () in lengths):
        raise Refused(
            400, "The outputs of this signature are not rows. Send 'inputs' instead of 'instances'."
        )
    lists = {name: _plain(name, array) for name, array in outputs.items()}
    if not is_by_rows:
        return {"outputs": lists if len(lists) > 1 else next(iter(lists.values()))}
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    return {"predictions": rows if len(lists) > 1 else next(iter(lists.values()))}


def metadata_of(model):
    """Returns the answer to `/metadata`."""

    def tensors(specs):
        return {
            name: {
                "dtype": f"DT_{spec.dtype.name.upper()}",
                "tensor_shape": {
                    "dim": [
                        {"size": str(-1 if size is None else size)}
                        for size in (spec.shape.as_list() if spec.shape.rank is not None else [])
                    ],
                    "unknown_rank": spec.shape.rank is None,
                },
                "name": name,
            }
            for name, spec in specs.items()
        }

    definitions = {
        name: {
            "inputs": tensors({spec.name: spec for spec in signature.inputs}),
            "outputs": tensors(signature.outputs),
            "method_name": "tensorflow/serving/predict",
        }
        for name, signature in model.signatures.items()
    }
    return {
        "model_spec": {"name": model.name, "signature_name": "", "version": str(model.version)},
        "metadata": {"signature_def": {"signature_def": definitions}},
    }


def status_of(model):
    """Returns the answer to the URL of a model."""
    status = {"error_code": "OK", "error_message": ""}
    version = {"version": str(model.version), "state": "AVAILABLE", "status": status}
    return {"model_version_status": [version]}


def _columns(content, names):
    """Returns a dictionary of the names of the inputs to lists of values."""
    if "inputs" in content:
        inputs = content["inputs"]
        columns = inputs if _is_named(inputs) else {names[0]: inputs}
    else:
        rows = content["instances"]
        if not isinstance(rows, list) or not rows:
            raise Refused(400, "'instances' must be a list that is not empty.")
        named = [row if _is_named(row) else {names[0]: row} for row in rows]
        if any(row.keys() != named[0].keys() for row in named):
            raise Refused(400, "All instances must name the same inputs.")
        columns = {name: [row[name] for row in named] for name in named[0]}
    if columns.keys() != set(names):
        raise Refused(
            400, f"The signature takes {', '.join(names)}. Received: {', '.join(columns) or '-'}."
        )
    return columns


def _is_named(value):
    return isinstance(value, dict) and value.keys() != {"b64"}


def _array(values, spec):
    if spec.dtype == tf.string:
        try:
            array = np.array(_decoded(values), object)
        except RecursionError as error:
            raise Refused(400, f"{spec.name} is a list of lists of lists, too deep.") from error
        is_right = all(isinstance(each, bytes) for each in array.ravel())
    else:
        try:
            array = np.array(values)
        except ValueError:  # rows of different lengths
            array = np.array(None)
        kinds = "b" if spec.dtype.is_bool else "iu" if spec.dtype.is_integer else "iuf"
        is_right = array.dtype.kind in kinds
        is_right = is_right and (not spec.dtype.is_integer or _fits(array, spec.dtype))
    if not is_right or not array.ndim or not spec.shape.is_compatible_with(array.shape):
        raise Refused(
            400,
            f"{spec.name} must be {spec.dtype.name} of the shape {spec.shape}, where None stands "
            f"for any number. Received: shape {array.shape}, {array.dtype}.",
        )
    return array


def _fits(array, dtype):
    return not array.size or (dtype.min <= array.min() and array.max() <= dtype.max)


def _decoded(values):
    """Returns nested lists of `bytes`."""
    if isinstance(values, list):
        return [_decoded(value) for value in values]
    if isinstance(values, str):
        try:
            return values.encode()
        except UnicodeEncodeError as error:
            raise Refused(400, f"A string is not Unicode: {error}") from error
    if isinstance(values, dict) and isinstance(values.get("b64"), str):
        try:
            return base64.b64decode(values["b64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise Refused(400, f"b64 is not base64: {error}") from error
    raise Refused(400, f"Expected a string. Received: {type(values).__name__}.")


def _plain(name, array):
    """Returns nested lists of JSON values."""
    if array.dtype != object:
        return _finite(array.tolist())
    return _texts(array.tolist(), name.endswith(BINARY))


def _texts(value, is_binary):
    if isinstance(value, list):
        return [_texts(each, is_binary) for each in value]
    if is_binary:
        return {"b64": base64.b64encode(value).decode()}
    return value.decode("utf-8", "replace")


def _finite(value):
    """Returns numbers for JSON; infinity and NaN become `null`."""
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
