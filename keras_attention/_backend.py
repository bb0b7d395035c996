"""What keras.ops lacks, for every backend."""

import contextvars
import functools
import math
import operator

import keras
from keras import ops


def multiply(a, b, transpose_a=False, transpose_b=False):
    """Multiplies matrices like `ops.matmul`, after exchanging the last two axes of some.

    TensorFlow has to be told: it would not multiply by a transpose without writing it down.
    """
    is_transposed = transpose_a or transpose_b
    if is_transposed and keras.backend.backend() == "tensorflow" and a.dtype == b.dtype:
        import tensorflow as tf

        return tf.matmul(a, b, transpose_a, transpose_b)
    a = ops.swapaxes(a, -1, -2) if transpose_a else a
    return ops.matmul(a, ops.swapaxes(b, -1, -2) if transpose_b else b)


def shape_of(x):
    """Returns the sizes of a tensor like `ops.shape`: integers, or tensors if they are unknown.

    `ops.shape` adds four operations to a TensorFlow graph for each unknown size; this adds two for
    all of them.
    """
    known = tuple(x.shape)
    is_complete = None not in known or isinstance(x, keras.KerasTensor)
    if is_complete or keras.backend.backend() != "tensorflow":
        return known
    import tensorflow as tf

    sizes = tf.unstack(tf.shape(x))
    return tuple(size if each is None else each for each, size in zip(known, sizes, strict=True))


def rows_of(table, ids, training=None):
    """Returns rows of a table; in training, with a gradient that optimizers understand.

    That of `ops.take` lists the parts of a row separately on TensorFlow. Keras' optimizers square
    each of them instead of their sum, so that rows taken often would move too far.

    Args:
        table: Weight or tensor `(rows, size)`.
        ids: int32 tensor, which rows.
        training: Whether the layer is training.
    """
    table = ops.convert_to_tensor(table)
    if not training or keras.backend.backend() != "tensorflow":
        return ops.take(table, ids, axis=0)
    import tensorflow as tf

    @tf.custom_gradient
    def taken(table):
        def gradient(upstream):
            # Many small parts get lost in half precision.
            parts = tf.cast(upstream, keras.backend.result_type(upstream.dtype, "float32"))
            sums = tf.math.unsorted_segment_sum(parts, ids, tf.shape(table)[0])
            return tf.cast(sums, upstream.dtype)

        return ops.take(table, ids, axis=0), gradient

    return taken(tf.convert_to_tensor(table))  # not a variable, which it would capture


def pullback(function, *inputs):
    """Returns `function(*inputs)`, and a function from its gradient to those of the inputs.

    An input that does not affect the output gets a gradient of zeros.
    """
    return _PULLBACKS[keras.backend.backend()](function, inputs)


def _tensorflow(function, inputs):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        inputs = [tf.identity(each) for each in inputs]  # distinct from those of an outer tape
        tape.watch(inputs)
        output = function(*inputs)
    return output, lambda upstream: tape.gradient(
        output, inputs, upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )


def _jax(function, inputs):
    import jax

    return jax.vjp(function, *inputs)


def _torch(function, inputs):
    import torch

    if torch.is_grad_enabled():  # because of create_graph=True
        raise RuntimeError(
            "The chunked computation of attention has no second derivative on PyTorch. "
            "Received: a backward pass to be differentiated again, create_graph=True. "
            "Make the layer with implementation='reference'."
        )
    with torch.enable_grad():
        inputs = [each.detach().requires_grad_() for each in inputs]
        output = function(*inputs)

    def gradients(upstream):
        if not output.requires_grad:
            return [torch.zeros_like(each) for each in inputs]
        found = torch.autograd.grad(output, inputs, upstream, allow_unused=True)
        pairs = zip(found, inputs, strict=True)
        return [torch.zeros_like(of) if each is None else each for each, of in pairs]

    return output, gradients


_PULLBACKS = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}


def in_one_pass(function):
    """Returns an elementwise function that computes as one loop, and its gradient as another.

    On a CPU, TensorFlow alone reads and writes all numbers for every operation of the function and
    of its gradient, so there XLA compiles both, if there is XLA. Use it in training only: a saved
    graph should not need XLA. Elsewhere the function is returned as it is: Keras compiles whole
    steps for a GPU or TPU.

    Args:
        function: Function of a tensor `(…, size)`.
    """
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    if not _has_cpus_only() or not tf.test.is_built_with_xla():
        return function
    compiled = functools.partial(tf.function, autograph=False, jit_compile=True)
    forward = compiled(function)

    @compiled
    def backward(x, upstream):
        _, gradients = pullback(function, x)
        return gradients(upstream)[0]

    @tf.custom_gradient
    def of_rows(rows):
        if rows.shape[0] is not None and not tf.executing_eagerly():
            return forward(rows), lambda upstream: backward(rows, upstream)
        count, size = tf.unstack(tf.shape(rows))
        rest = tf.zeros((_rows_to_a_usual_number(count), size), rows.dtype)

        def whole(rows):
            return tf.concat([rows, rest], axis=0)

        rows = whole(rows)
        return forward(rows)[:count], lambda upstream: backward(rows, whole(upstream))[:count]

    def call(x):
        return tf.reshape(of_rows(tf.reshape(x, (-1, x.shape[-1]))), tf.shape(x))

    return call


def _has_cpus_only():
    import tensorflow as tf

    return all(each.device_type == "CPU" for each in tf.config.list_physical_devices())


def has_onednn():
    """Whether TensorFlow computes with oneDNN: without a GPU, on processors that gain from it."""
    try:
        from tensorflow.python.util._pywrap_util_port import IsMklEnabled as is_enabled
    except ImportError:  # a version of TensorFlow that does not tell
        return False
    return is_enabled() and _has_cpus_only()


def _rows_to_a_usual_number(count):
    """Returns how many rows are missing to one of at most four numbers between powers of two.

    XLA compiles for each number.
    """
    import tensorflow as tf

    bits = tf.math.log(tf.cast(tf.maximum(count, 1), tf.float32)) / math.log(2.0)
    step = tf.bitwise.left_shift(1, tf.maximum(tf.cast(bits, tf.int32) - 2, 8))
    return -count % step


def custom_gradient(function):
    """`ops.custom_gradient` for functions that use tensors besides their arguments.

    Such tensors would be missing where JAX traces a function again, as `jax.checkpoint` does, so
    they become arguments without a gradient.
    """
    if keras.backend.backend() != "jax":
        return ops.custom_gradient(function)
    import jax

    def call(*inputs):
        rules = []

        def with_residuals(*inputs):
            output, gradient = function(*inputs)
            rule, residuals = _closed(gradient, output)
            rules.append(rule)
            return output, residuals

        forward, used = _closed(with_residuals, *inputs)

        @jax.custom_vjp
        def compute(used, *inputs):
            return forward(used, *inputs)[0]

        compute.defvjp(forward, lambda residuals, upstream: (None, *rules[0](residuals, upstream)))
        return compute(used, *inputs)

    return call


def _closed(function, *examples):
    """Returns a JAX function that takes its captured tensors as first argument, and these."""
    import jax

    traced, output = jax.make_jaxpr(function, return_shape=True)(*examples)
    structure = jax.tree.structure(output)

    def closed(used, *inputs):
        return structure.unflatten(jax.core.eval_jaxpr(traced.jaxpr, used, *inputs))

    return closed, traced.consts


class TileList:
    """A list of tensors of one shape, for a loop that changes one of them at a time.

    TensorFlow copies a whole tensor when a part of it changes in a loop, so there the list is a
    `TensorArray`. Pass `.state` as the loop variable.
    """

    def __init__(self, state):
        self.state = state

    @classmethod
    def unstack(cls, tensor):
        """Returns the list of `tensor[0], tensor[1], …`."""
        if keras.backend.backend() != "tensorflow":
            return cls(tensor)
        import tensorflow as tf

        array = tf.TensorArray(
            tensor.dtype,
            size=tf.shape(tensor)[0],
            element_shape=tensor.shape[1:],
            clear_after_read=False,
        )
        return cls(array.unstack(tensor))

    def stack(self):
        return self.state.stack() if self._is_array else self.state

    def read(self, place):
        return self.state.read(place) if self._is_array else self.state[place]

    def write(self, place, tensor):
        """Returns the list with the tensor at one index replaced."""
        if self._is_array:
            return TileList(self.state.write(place, tensor))
        indices = ops.reshape(place, (1, 1))
        return TileList(ops.scatter_update(self.state, indices, tensor[None]))

    @property
    def _is_array(self):
        return hasattr(self.state, "stack")


_IS_INTERPRETED = contextvars.ContextVar("is_interpreted", default=False)


def interpreted(function):
    """Tells that XLA will not compile the graph of a function: the one that TensorFlow builds in a
    call of the result."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        token = _IS_INTERPRETED.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            _IS_INTERPRETED.reset(token)

    return call


def overwritten(old, new, start):
    """Returns a tensor with other vectors from a place on.

    XLA fuses a choice between old and new with what follows. TensorFlow alone would copy all of
    `old` for it, so a graph that is `interpreted` has an operation that writes in place where
    nothing else needs `old`. XLA cannot compile that operation. `ops.slice_update`, the other way
    round, needs XLA on TensorFlow, which not every server has.

    Args:
        old: Tensor `(..., length, size)`.
        new: Tensor `(..., count, size)` with the same front axes; dropped beyond the end of `old`,
            where an interpreted graph raises an error.
        start: The place, an integer or scalar tensor.
    """
    new = ops.cast(new, old.dtype)
    if new.shape[-2] == 0:
        return old
    if _IS_INTERPRETED.get() and keras.backend.backend() == "tensorflow":
        return _written_in_place(old, new, start)
    places = ops.arange(shape_of(old)[-2], dtype="int32") - start  # (length,)
    count = shape_of(new)[-2]
    is_new = ops.logical_and(places >= 0, places < count)
    if new.shape[-2] != 1:
        new = ops.take(new, ops.clip(places, 0, count - 1), axis=-2)
    return ops.where(is_new[:, None], new, old)


def _written_in_place(old, new, start):
    import tensorflow as tf

    # As matrices, since TensorFlow computes the place of each number from one index per axis, and
    # of the widest numbers, since it copies them one by one.
    *front, length, size = shape_of(old)
    rows, count = functools.reduce(operator.mul, front), shape_of(new)[-2]
    together = 16 // old.dtype.size
    is_wide = old.dtype.is_floating and isinstance(size, int) and size % together == 0
    width = size // together if is_wide else size

    def as_matrix(x, length):
        if not is_wide:
            return tf.reshape(x, (rows, length * width))
        return tf.bitcast(tf.reshape(x, (rows, length * width, together)), tf.complex128)

    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=as_matrix(old, length),
        begin=(0, start * width),
        end=(0, (start + count) * width),
        strides=(1, 1),
        value=as_matrix(new, count),
        begin_mask=1,  # all rows
        end_mask=1,
    )
    written = tf.bitcast(written, old.dtype) if is_wide else written
    return tf.reshape(written, (*front, length, size))


def layer_normalized(x, scale, offset, epsilon):
    """Returns the layer normalization of the vectors of `x`, or `None` where Keras' own is faster.

    It is for a graph that is `interpreted`: there TensorFlow's optimizer replaces these operations,
    those of Keras 2, by a single one of oneDNN.
    """
    if not _IS_INTERPRETED.get() or keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    if tf.executing_eagerly() or x.dtype not in (tf.float32, tf.bfloat16) or not has_onednn():
        return None
    sizes = tf.shape(x)
    count = tf.reduce_prod(sizes[:-1])
    normalized, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, (1, count, scale.shape[0], 1)),
        scale=tf.fill([count], 1.0),
        offset=tf.fill([count], 0.0),
        mean=tf.constant([]),
        variance=tf.constant([]),
        epsilon=epsilon,
        data_format="NCHW",
    )
    return tf.reshape(normalized, sizes) * tf.cast(scale, x.dtype) + tf.cast(offset, x.dtype)


def uniform_of_seed(shape, seed):
    """Returns float32 numbers from 0 to 1 that only depend on a seed, int32 `(2,)`."""
    return _UNIFORM[keras.backend.backend()](shape, seed)


def _tensorflow_uniform(shape, seed):
    import tensorflow as tf

    return tf.random.stateless_uniform(shape, seed)


def _jax_uniform(shape, seed):
    import jax

    return jax.random.uniform(jax.random.fold_in(jax.random.key(seed[0]), seed[1]), shape)


def _torch_uniform(shape, seed):
    import torch

    generator = torch.Generator(seed.device).manual_seed(int(seed[0]) * 2**31 + int(seed[1]))
    return torch.rand(shape, generator=generator, device=seed.device)


_UNIFORM = {"tensorflow": _tensorflow_uniform, "jax": _jax_uniform, "torch": _torch_uniform}


def known_values(tensor):
    """Returns the values of a tensor as a NumPy array, or `None` while TensorFlow or JAX traces."""
    backend = keras.backend.backend()
    is_traced = False
    if backend == "tensorflow":
        import tensorflow as tf

        is_traced = tf.is_symbolic_tensor(tensor)
    elif backend == "jax":
        import jax

        is_traced = isinstance(tensor, jax.core.Tracer)
    return None if is_traced else ops.convert_to_numpy(tensor)


def size_of(count, most):
    """Returns a number that tensors determine as the size of an axis.

    It is an integer if it is known, and the number itself where TensorFlow builds a graph. JAX
    traces with sizes that are known in advance only: there it is `most`.

    Args:
        count: Scalar tensor.
        most: The largest number that it may be.
    """
    known = known_values(count)
    if known is not None:
        return int(known)
    return count if keras.backend.backend() == "tensorflow" else most


def larger(first, second):
    """Returns the larger of two sizes: integers, scalar tensors, or symbolic sizes of JAX."""
    if isinstance(first, int) and isinstance(second, int):
        return max(first, second)
    if keras.backend.backend() != "jax":
        return ops.maximum(first, second)
    import jax

    return jax.core.max_dim(first, second)


def has_fast_kernel():
    """Whether `keras.ops.dot_product_attention` is a dedicated kernel: on a GPU, except with
    TensorFlow, for which Keras has none."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.default_backend() == "gpu"
    if backend == "torch":
        import torch

        return torch.cuda.is_available()
    return False
