"""Runs signatures of SavedModels with the C API of TensorFlow, as a server does.

`python c_api.py REQUESTS` takes a JSON object with `library`, `with_xla` and `requests`. Each
request is an object with `folder`, `inputs` and `outputs` (names and their tensors in the graph)
and `values` (names and their lists of strings or integers). It prints a JSON list with the outputs
or the `error` of each request. Strings are bytes in base64. It uses no Python code of TensorFlow,
Keras or this project.
"""

import base64
import ctypes
import json
import sys

FLOAT, INT32, STRING = 1, 3, 7  # TF_DataType
SIZE_OF_STRING = 24  # TF_TString
NUMBERS = {FLOAT: ctypes.c_float, INT32: ctypes.c_int32}


class Output(ctypes.Structure):  # TF_Output
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class Library:
    """Calls the library's functions by name; they return pointers unless told otherwise."""

    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        self.status = ctypes.c_void_p(self("TF_NewStatus"))

    def __call__(self, name, *arguments, returns=ctypes.c_void_p):
        function = getattr(self.functions, name)
        function.restype = returns
        return function(*arguments)

    def checked(self, name, *arguments):
        result = self(name, *arguments, self.status)
        if self("TF_GetCode", self.status, returns=ctypes.c_int) != 0:
            message = self("TF_Message", self.status, returns=ctypes.c_char_p)
            raise RuntimeError(message.decode())
        return result

    def tensor(self, values):
        """Returns a tensor: a vector of strings or integers."""
        is_string = isinstance(values[0], str)
        size = ctypes.c_size_t(len(values) * (SIZE_OF_STRING if is_string else 4))
        shape = (ctypes.c_int64 * 1)(len(values))
        tensor = self("TF_AllocateTensor", STRING if is_string else INT32, shape, 1, size)
        data = self("TF_TensorData", ctypes.c_void_p(tensor))
        for place, value in enumerate(values):
            if is_string:
                content = base64.b64decode(value)
                string = ctypes.c_void_p(data + place * SIZE_OF_STRING)
                self("TF_StringInit", string, returns=None)
                self("TF_StringCopy", string, content, ctypes.c_size_t(len(content)), returns=None)
            else:
                ctypes.c_int32.from_address(data + place * 4).value = value
        return tensor

    def values(self, tensor):
        """Returns the values of a tensor as nested lists."""
        tensor = ctypes.c_void_p(tensor)
        kind = self("TF_TensorType", tensor, returns=ctypes.c_int)
        rank = self("TF_NumDims", tensor, returns=ctypes.c_int)
        shape = [self("TF_Dim", tensor, axis, returns=ctypes.c_int64) for axis in range(rank)]
        count = self("TF_TensorElementCount", tensor, returns=ctypes.c_int64)
        data = self("TF_TensorData", tensor)
        if kind == STRING:
            flat = [self.string(data + place * SIZE_OF_STRING) for place in range(count)]
        else:
            flat = list((NUMBERS[kind] * count).from_address(data))
        for size in reversed(shape[1:]):
            flat = [flat[first : first + size] for first in range(0, len(flat), size)]
        return flat

    def string(self, address):
        string = ctypes.c_void_p(address)
        size = self("TF_StringGetSize", string, returns=ctypes.c_size_t)
        content = ctypes.string_at(self("TF_StringGetDataPointer", string), size)
        return base64.b64encode(content).decode()


def run(library, folder, inputs, outputs, values):
    graph = ctypes.c_void_p(library("TF_NewGraph"))
    session = library.checked(
        "TF_LoadSessionFromSavedModel",
        ctypes.c_void_p(library("TF_NewSessionOptions")),
        None,
        folder.encode(),
        (ctypes.c_char_p * 1)(b"serve"),
        1,
        graph,
        None,
    )

    def places(tensors):
        found = []
        for tensor in tensors:
            name, index = tensor.split(":")
            operation = library("TF_GraphOperationByName", graph, name.encode())
            found.append(Output(operation, int(index)))
        return (Output * len(found))(*found)

    fed = [library.tensor(values[name]) for name in inputs]
    fetched = (ctypes.c_void_p * len(outputs))()
    library.checked(
        "TF_SessionRun",
        ctypes.c_void_p(session),
        None,
        places(inputs.values()),
        (ctypes.c_void_p * len(fed))(*fed),
        len(fed),
        places(outputs.values()),
        fetched,
        len(outputs),
        None,
        0,
        None,
    )
    return dict(zip(outputs, map(library.values, fetched), strict=True))


def main(arguments):
    library = Library(arguments["library"])
    if not arguments["with_xla"]:  # what TF Serving does on a CPU, unless a flag says otherwise
        library("_ZN10tensorflow21DisableXlaCompilationEv", returns=None)
    for request in arguments["requests"]:
        try:
            yield run(library, **request)
        except RuntimeError as error:
            yield {"error": str(error)}


if __name__ == "__main__":
    print(json.dumps(list(main(json.loads(sys.argv[1])))))
