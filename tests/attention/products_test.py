"""Products of tensors against NumPy in float64, and that only one module uses the backend's."""

import ast
import functools
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import keras_attention
from keras_attention._products import dot, einsum, matmul
from tests.attention import oracle
from tests.attention.gradients import gradients

RNG = np.random.default_rng(0)
# Batch axes of the matrices. TensorFlow 2.21 with oneDNN corrupts memory with the first ones.
AXES = [
    ((4, 1), (1, 1)),
    ((4, 1), (1,)),
    ((4, 1), ()),
    ((4, 1, 1), (1,)),
    ((4, 1, 1), (3,)),
    ((1, 1), (4, 1)),
    ((4, 1), (4, 1)),
    ((4, 2), (2,)),
    ((1, 1), (1, 1)),
    ((4,), (1,)),
    ((), (4, 1)),
]
SIZES = [(1, 2, 1), (1, 6, 7), (5, 1, 4), (33, 6, 7)]
FORBIDDEN = {"matmul", "einsum", "dot", "tensordot", "vdot", "inner"}


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


def float64(*arrays):
    return [array.astype("float64") for array in arrays]


def assert_right(product, expected, *inputs):
    """Compares a bilinear function and its gradients with NumPy."""
    wanted = expected(*float64(*inputs))
    found = product(*map(ops.convert_to_tensor, inputs))
    np.testing.assert_allclose(oracle.float64(found), wanted, atol=1e-4)
    upstream = random(*wanted.shape)
    slopes = gradients(lambda *inputs: ops.multiply(product(*inputs), upstream), *inputs)
    for place, (x, slope) in enumerate(zip(inputs, slopes, strict=True)):
        direction = RNG.normal(size=x.shape)  # the function is linear in each input
        moved = float64(*inputs)
        moved[place] = direction
        wanted = (expected(*moved) * upstream).sum()
        np.testing.assert_allclose(
            (oracle.float64(slope) * direction).sum(), wanted, rtol=1e-4, atol=1e-3
        )


@pytest.mark.parametrize(("of_a", "of_b"), AXES)
def test_matmul_equals_numpy(of_a, of_b):
    for m, k, j in SIZES:
        assert_right(matmul, np.matmul, random(*of_a, m, k), random(*of_b, k, j))


@pytest.mark.parametrize(("of_a", "of_b"), [((4, 1), (1, 1)), ((4, 2), (2,)), ((), (4, 1))])
@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_matmul_of_transposes_equals_numpy(flags, of_a, of_b):
    def shape(lead, rows, columns, is_transposed):
        return (*lead, columns, rows) if is_transposed else (*lead, rows, columns)

    def expected(a, b):
        a, b = (
            np.swapaxes(x, -1, -2) if flag else x for x, flag in zip((a, b), flags, strict=True)
        )
        return np.matmul(a, b)

    product = functools.partial(matmul, transpose_a=flags[0], transpose_b=flags[1])
    for m, k, j in SIZES[1:]:
        inputs = random(*shape(of_a, m, k, flags[0])), random(*shape(of_b, k, j, flags[1]))
        assert_right(product, expected, *inputs)


@pytest.mark.parametrize("heads", [(), (1,), (2,)])
def test_dot_equals_numpy(heads):
    def expected(x, vectors):
        return (x * vectors[..., None, None, :]).sum(-1)

    for m, k, j in SIZES:
        assert_right(dot, expected, random(4, *heads, m, k, j), random(*heads, j))


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("equation", ["bhmk,hkj->bhmj", "bhmk,hjk->bhmj", "bmk,hkj->bhmj"])
def test_einsum_equals_numpy(equation, heads):
    for m, k, j in SIZES:
        sizes = {"b": 4, "h": heads, "m": m, "k": k, "j": j}
        of_a, of_b = equation.partition("->")[0].split(",")
        inputs = (random(*(sizes[axis] for axis in axes)) for axes in (of_a, of_b))
        product, expected = (functools.partial(each, equation) for each in (einsum, np.einsum))
        assert_right(product, expected, *inputs)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="knows no other sizes")
def test_matmul_of_batches_of_unknown_size():
    import tensorflow as tf

    specs = [tf.TensorSpec((None, 1, None, 6)), tf.TensorSpec((None, 1, 6, 7))]
    call = tf.function(matmul, input_signature=specs)
    for batch in (1, 2, 4):
        for other in {1, batch}:
            a, b = random(batch, 1, 33, 6), random(other, 1, 6, 7)
            np.testing.assert_allclose(call(a, b), np.matmul(*float64(a, b)), atol=1e-4)


def test_nobody_else_multiplies_by_the_backend():
    """Calling `ops.matmul` directly risks the crash that `_products.matmul` avoids."""
    found = []
    for file in Path(keras_attention.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            is_product = isinstance(node, ast.MatMult) or (
                isinstance(node, ast.Attribute)
                and node.attr in FORBIDDEN
                and ast.unparse(node.value) in ("ops", "keras.ops")
            )
            if is_product and file.name not in ("_products.py", "_backend.py"):
                found.append(f"{file.name}: {ast.unparse(node)}")
    # Plots of masks use NumPy, not the backend.
    assert found == ["plotting.py: "], found
