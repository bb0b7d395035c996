"""The layers of `drop_in` against the Keras layers that they replace."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import AttentionCell, AttentionRNN, MultiHeadAttention, drop_in, from_keras
from keras_attention._keras import get_keras_mask
from keras_attention.scores import Score

RNG = np.random.default_rng(0)
NAMES = ["MultiHeadAttention", "GroupQueryAttention", "Attention", "AdditiveAttention"]
MULTI_HEAD = {"num_heads": 2, "key_dim": 4}
GROUPED = {"head_dim": 4, "num_query_heads": 4, "num_key_value_heads": 2}


def random(*shape):
    return RNG.normal(size=shape).astype("float32")


QUERY, VALUE, KEY = random(2, 4, 8), random(2, 3, 8), random(2, 3, 8)


def theirs(name, *shapes, **arguments):
    """Returns a built Keras layer whose weights are all random."""
    layer = getattr(keras.layers, name)(**arguments)
    layer.build(*(shapes if name in NAMES[:2] else [list(shapes)]))
    layer.set_weights([random(*weight.shape) / 2 for weight in layer.weights])
    return layer


def assert_same(layer, *inputs, other=None, **arguments):
    """Asserts that our layer equals that of Keras: output, scores, and their shapes."""
    inputs = inputs if len(inspect.signature(layer.build).parameters) > 1 else [list(inputs)]
    other = from_keras(layer) if other is None else other
    expected = layer(*inputs, return_attention_scores=True, **arguments)
    output = other(*inputs, return_attention_scores=True, **arguments)
    for mine, their in zip(output, expected, strict=True):
        assert tuple(mine.shape) == tuple(their.shape)
        mine, their = (ops.convert_to_numpy(x).astype("float32") for x in (mine, their))
        np.testing.assert_allclose(mine, their, atol=2e-5)
    alone = ops.convert_to_numpy(other(*inputs, **arguments))
    np.testing.assert_allclose(alone, ops.convert_to_numpy(output[0]), atol=2e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"value_dim": 3, "use_bias": False, "use_gate": True},
        {"output_shape": 5, "use_gate": True},
        {"output_shape": (2, 3)},
        {"sliding_window": 2},
        {"dropout": 0.5, "seed": 3, "flash_attention": False},
    ],
    ids=str,
)
def test_several_heads(arguments):
    shapes = QUERY.shape, VALUE.shape, KEY.shape
    layer = theirs("MultiHeadAttention", *shapes, **MULTI_HEAD, **arguments)
    assert_same(layer, QUERY, VALUE, KEY)
    assert from_keras(layer).compute_output_shape(*map(list, shapes)) == tuple(
        layer.compute_output_shape(*shapes)
    )


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("query", "value", "axes", "mask"),
    [
        ((3, 4), (3, 2), 2, (4, 2)),
        ((3, 4), (3, 2), -2, (3, 3, 4, 2)),
        ((3, 4), (3, 2), (2,), (3, 3, 2, 4, 2)),
        ((3, 4), (5, 4), 1, (3, 5)),
        ((3, 4), (3, 2), (1, 2), (3, 4, 3, 2)),
        ((3, 4), (3, 2), (2, 1), (3, 1, 4, 3, 2, 3)),
        ((5, 3, 4), (5, 3, 2), (2, 3), (3, 5, 2, 3, 4, 3, 2)),
        ((4, 2, 3), (1, 1, 5), None, None),
    ],
    ids=str,
)
def test_chosen_axes_of_inputs_of_any_rank(query, value, axes, mask):
    query, value = random(3, *query, 8), random(3, *value, 6)
    layer = theirs(
        "MultiHeadAttention", query.shape, value.shape, attention_axes=axes, **MULTI_HEAD
    )
    if mask is not None:
        mask = RNG.random(mask) < 0.7
        mask[(..., *[0] * (1 if isinstance(axes, int) else len(axes)))] = True
    assert_same(layer, query, value, attention_mask=mask)


def test_padding_and_causal_masks_along_an_axis():
    query = random(2, 3, 4, 8)
    layer = theirs("MultiHeadAttention", query.shape, query.shape, attention_axes=2, **MULTI_HEAD)
    visible = np.arange(4) < RNG.integers(1, 5, (2, 3, 1))
    ours = from_keras(layer)
    expected = layer(query, query, attention_mask=visible[:, :, None] & np.tri(4, dtype=bool))
    output = ours(query, query, value_mask=visible, use_causal_mask=True)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (output, expected)), atol=1e-5)


@pytest.mark.parametrize("arguments", [{}, {"use_gate": True, "use_bias": False}], ids=str)
def test_grouped_heads(arguments):
    layer = theirs("GroupQueryAttention", QUERY.shape, VALUE.shape, **GROUPED, **arguments)
    assert_same(layer, QUERY, VALUE, use_causal_mask=True)
    assert_same(layer, QUERY, QUERY, KEY[:, [0, 1, 2, 2]])


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES[2:])
@pytest.mark.parametrize("use_scale", [False, True])
@pytest.mark.parametrize("score_mode", ["dot", "concat"])
def test_a_list_of_query_value_and_key(name, use_scale, score_mode):
    arguments = {"score_mode": score_mode} if name == "Attention" else {}
    shapes = QUERY.shape, VALUE.shape, KEY.shape
    layer = theirs(name, *shapes, use_scale=use_scale, **arguments)
    assert_same(layer, QUERY, VALUE, KEY)
    masks = [np.arange(4) < [[4], [2]], np.arange(3) < [[3], [1]]]
    assert_same(layer, QUERY, VALUE, mask=masks)
    assert_same(layer, QUERY, VALUE, KEY, mask=[None, masks[1]], use_causal_mask=True)
    assert_same(layer, QUERY[:, None], VALUE[:, None])


@pytest.mark.few(3)
@pytest.mark.parametrize("sizes", [(4, 3), (3, 4), (3, 3)])
@pytest.mark.parametrize("window", [None, 2])
def test_causal_masks_and_windows_begin_at_the_start(sizes, window):
    query, value = (random(2, size, 8) for size in sizes)
    layer = theirs(
        "MultiHeadAttention", query.shape, value.shape, sliding_window=window, **MULTI_HEAD
    )
    if window is None or sizes[0] <= sizes[1]:  # otherwise a query sees nothing
        assert_same(layer, query, value, use_causal_mask=True)
    chunked = drop_in.MultiHeadAttention.from_config(
        {**layer.get_config(), "implementation": "chunked"}
    )
    chunked.build(query.shape, value.shape)
    chunked.set_weights(layer.get_weights())
    inputs = [keras.Input((None, 8)), keras.Input((None, 8))]
    model = keras.Model(inputs, from_keras(layer)(*inputs, use_causal_mask=True))
    outputs = model([query, value]), chunked(query, value, use_causal_mask=True)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, outputs), atol=1e-5)


@pytest.mark.few(4)
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (2, 1, 3), (2, 4, 1), (2, 1, 1, 3)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_masks_of_numbers_that_broadcast(shape, dtype):
    layer = theirs("MultiHeadAttention", QUERY.shape, VALUE.shape, **MULTI_HEAD)
    mask = (RNG.random(shape) < 0.6).astype(dtype)
    mask[..., 0] = 1
    assert_same(layer, QUERY, VALUE, attention_mask=mask)
    padding = (np.arange(3) < [[2], [3]]).astype(dtype)
    assert_same(layer, QUERY, VALUE, value_mask=padding, key_mask=padding)


def test_masks_of_embeddings():
    tokens = np.array([[1, 2, 3, 1], [3, 3, 0, 0]])
    embedded = keras.layers.Embedding(4, 8, mask_zero=True)(tokens)
    memory = keras.layers.Embedding(4, 8, mask_zero=True)(tokens[:, :3])
    layer = theirs("MultiHeadAttention", QUERY.shape, VALUE.shape, **MULTI_HEAD)
    output = from_keras(layer)(embedded, memory)
    handed_on = ops.convert_to_numpy(get_keras_mask(output))
    np.testing.assert_array_equal(handed_on, tokens != 0)
    expected = ops.convert_to_numpy(layer(embedded, memory))
    output = ops.convert_to_numpy(output)
    np.testing.assert_allclose(output[tokens != 0], expected[tokens != 0], atol=1e-5)
    bias = ops.convert_to_numpy(layer.output_dense.bias)
    np.testing.assert_allclose(output[tokens == 0], [bias, bias], atol=1e-6)


def test_inputs_keep_their_masks():
    tokens = np.array([[1, 2, 3, 0]])
    layer = keras.layers.MultiHeadAttention(2, 4)
    embedding = keras.layers.Embedding(4, 8, mask_zero=True)
    for attend, is_kept in ((layer, False), (lambda *x: from_keras(layer)(*x), True)):
        embedded = embedding(tokens)
        attend(embedded, embedded)
        assert (get_keras_mask(embedded) is not None) is is_kept


def both_models():
    """Returns a model with the four Keras layers and one with ours."""
    models = []
    for source in (keras.layers, drop_in):
        grouped = getattr(source, "GroupQueryAttention", None) or source.GroupedQueryAttention
        query, value = keras.Input((4, 8)), keras.Input((3, 8))
        x = source.MultiHeadAttention(**MULTI_HEAD, use_gate=True)(query, value)
        x = grouped(**GROUPED)(x, value)
        x = source.Attention(use_scale=True, score_mode="concat")([x, value])
        models.append(keras.Model([query, value], source.AdditiveAttention()([x, value])))
    return models


def test_files_of_weights_load_both_ways(tmp_path):
    their_model, our_model = both_models()
    path = tmp_path / "model.weights.h5"
    for saved, loaded in ((their_model, our_model), (our_model, their_model)):
        saved.set_weights([random(*weight.shape) for weight in saved.get_weights()])
        saved.save_weights(path)
        loaded.load_weights(path)
        for mine, their in zip(loaded.get_weights(), saved.get_weights(), strict=True):
            np.testing.assert_array_equal(mine, their)


def test_models_of_keras_become_ours(tmp_path):
    model = both_models()[0]
    model.save(tmp_path / "model.keras")
    ours = from_keras(keras.saving.load_model(tmp_path / "model.keras"))
    modules = [type(layer).__module__ for layer in ours.layers]
    assert all(each.startswith("keras_attention.drop_in") for each in modules[2:])
    ours.save(tmp_path / "ours.keras")
    again = keras.saving.load_model(tmp_path / "ours.keras")
    expected = ops.convert_to_numpy(model([QUERY, VALUE]))
    for one in (ours, again):
        output = ops.convert_to_numpy(one([QUERY, VALUE]))
        np.testing.assert_allclose(output, expected, atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("implementation", ["reference", "chunked"])
def test_training_takes_the_same_step(implementation):
    models = both_models()
    models[1].set_weights(models[0].get_weights())
    for layer in models[1].layers[2:]:
        layer.attention.implementation = implementation
    for model in models:
        model.compile("sgd", "mse", run_eagerly=True)
        model.train_on_batch([QUERY, VALUE], QUERY)
    for mine, their in zip(models[1].get_weights(), models[0].get_weights(), strict=True):
        np.testing.assert_allclose(mine, their, atol=1e-5)


REGULARIZED = {
    "kernel_regularizer": "l1",
    "bias_regularizer": "l2",
    "activity_regularizer": keras.regularizers.L2(0.1),
    "kernel_constraint": "non_neg",
    "bias_constraint": "max_norm",
    "bias_initializer": keras.initializers.RandomNormal(seed=1),
    "use_gate": True,
}


@pytest.mark.parametrize("layer_class", [MultiHeadAttention, drop_in.MultiHeadAttention])
def test_losses_and_constraints(layer_class):
    layer = theirs("MultiHeadAttention", QUERY.shape, VALUE.shape, **MULTI_HEAD, **REGULARIZED)
    ours = layer_class(**MULTI_HEAD, **REGULARIZED)
    ours.build(QUERY.shape, VALUE.shape)
    for mine, their in zip(ours.weights, layer.weights, strict=True):
        mine.assign(ops.reshape(their, mine.shape))
        assert type(mine.constraint) is type(their.constraint)
    for each in (layer, ours):
        each(QUERY, VALUE)
    expected, losses = (sorted(map(float, each.losses)) for each in (layer, ours))
    assert len(losses) == 15  # kernels, biases and outputs of five projections
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_those_of_keras(name):
    keras_class = getattr(keras.layers, name)
    ours = getattr(drop_in, keras_class.__name__)
    expected = inspect.signature(keras_class).parameters
    parameters = inspect.signature(ours).parameters
    common = [each for each in expected if each in parameters]
    assert list(parameters) == common
    for each in common:
        assert parameters[each].default == expected[each].default
    layer = theirs(
        name, QUERY.shape, VALUE.shape, **[MULTI_HEAD, GROUPED, {}, {}][NAMES.index(name)]
    )
    config = from_keras(layer).get_config()
    assert layer.get_config().keys() <= config.keys()
    assert ours.from_config(config).get_config() == config
    steps = [QUERY, VALUE] if name in NAMES[:2] else [[QUERY, VALUE]]
    ours.from_config(config)(*steps)
    attributes = [each for each in expected if hasattr(layer, each) and each in parameters]
    assert "dropout" in attributes
    for each in attributes:
        assert hasattr(from_keras(layer), each), each


def test_what_subclasses_of_keras_call():
    layer = theirs("MultiHeadAttention", QUERY.shape, QUERY.shape, **MULTI_HEAD)
    heads = [random(2, 4, 2, 4) for _ in range(3)]
    mask = np.ones((2, 4, 4), bool)
    mask[:, 3, 1] = False
    arguments = {"attention_mask": mask, "use_causal_mask": True, "return_attention_scores": True}
    expected = layer._compute_attention(*heads, **arguments)
    output = from_keras(layer)._compute_attention(*heads, **arguments)
    for mine, their in zip(output, expected, strict=True):
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (mine, their)), atol=1e-5)


def test_policies_of_parts_by_their_paths():
    policies = keras.dtype_policies.DTypePolicyMap()
    policies["mha/query"] = keras.dtype_policies.DTypePolicy("float16")
    layer = drop_in.MultiHeadAttention(2, 4, dtype=policies, name="mha")
    layer.build(QUERY.shape, VALUE.shape)
    assert layer.query_dense.kernel.dtype == "float16"
    assert layer.key_dense.kernel.dtype == "float32"


def test_what_keras_lacks_is_one_argument_away():
    layer = drop_in.MultiHeadAttention(2, 4, score="additive", normalizer="sparsemax")
    assert isinstance(layer.attention.score, Score)
    assert isinstance(layer, MultiHeadAttention)
    output, weights = layer(QUERY, VALUE, return_attention_scores=True)
    assert (ops.convert_to_numpy(weights) == 0).any()


def test_heads_side_by_side_are_normalized_together():
    options = {"query_key_norm": 1e-6, "joint_query_key_norm": True}
    layer, ours = drop_in.MultiHeadAttention(2, 4, **options), MultiHeadAttention(2, 4, **options)
    output = layer(QUERY, VALUE)
    ours.build(QUERY.shape, VALUE.shape)
    pairs = zip(layer.get_weights(), ours.weights, strict=True)
    ours.set_weights([np.reshape(mine, weight.shape) for mine, weight in pairs])
    np.testing.assert_allclose(output, ours(QUERY, VALUE), atol=1e-6)


def test_weights_may_follow_those_of_the_step_before():
    cell = AttentionCell(
        keras.layers.GRUCell(4), drop_in.MultiHeadAttention(2, 4), alignment="forward"
    )
    _, weights = AttentionRNN(cell)(QUERY, VALUE, return_attention_scores=True)
    np.testing.assert_allclose(ops.sum(weights, axis=-1), 1.0, atol=1e-5)


class Subclass(keras.layers.MultiHeadAttention):
    pass


class OwnModel(keras.Model):
    pass


def overriding(*names):
    return type(
        "Overrides", (drop_in.MultiHeadAttention,), {name: lambda self: 0 for name in names}
    )


def test_a_subclass_may_compute_in_another_way_if_it_calls_it():
    assert issubclass(overriding("call", "_compute_attention"), MultiHeadAttention)


ERRORS = {
    "another layer": (
        lambda: from_keras(keras.layers.Dense(3)),
        TypeError,
        ["from_keras takes", "GroupedQueryAttention", "Dense"],
    ),
    "a subclass": (lambda: from_keras(Subclass(2, 4)), TypeError, ["of type Subclass"]),
    "a model of its own code": (
        lambda: from_keras(OwnModel()),
        TypeError,
        ["from_keras takes", "of type OwnModel", "import its attention layers"],
    ),
    "a method that nobody calls": (
        lambda: overriding("_compute_attention"),
        TypeError,
        ["does not use `_compute_attention`", "a subclass Overrides", "Give the layer a score"],
    ),
    "a layer without weights": (
        lambda: from_keras(keras.layers.MultiHeadAttention(2, 4)),
        ValueError,
        ["has no weights yet", "Call it once"],
    ),
    "no size of a head": (
        lambda: drop_in.GroupedQueryAttention(0, 4, 2),
        ValueError,
        ["`head_dim` of GroupedQueryAttention must be a positive integer", "head_dim=0"],
    ),
    "an axis that is not there": (
        lambda: MultiHeadAttention(2, 4, attention_axes=2)(QUERY, VALUE),
        ValueError,
        ["`attention_axes` of MultiHeadAttention", "(1,)", "attention_axes=(2,)"],
    ),
    "an axis twice": (
        lambda: MultiHeadAttention(2, 4, attention_axes=(1, -2))(QUERY, VALUE),
        ValueError,
        ["each at most once"],
    ),
    "axes that are no integers": (
        lambda: MultiHeadAttention(2, 4, attention_axes="time"),
        ValueError,
        ["`attention_axes` of MultiHeadAttention must be an integer", "'time'"],
    ),
    "other axes that differ": (
        lambda: MultiHeadAttention(2, 4, attention_axes=2)(QUERY[:, None], random(2, 2, 3, 8)),
        ValueError,
        ["one memory for each query", "(0, 1)", "must be equal"],
    ),
    "other ranks": (
        lambda: MultiHeadAttention(2, 4)(QUERY[:, None], VALUE),
        ValueError,
        ["query (2, 1, 4, 8)", "ranks must be equal"],
    ),
    "a mask of other axes": (
        lambda: MultiHeadAttention(2, 4, attention_axes=2)(
            QUERY[:, None], VALUE[:, None], attention_mask=np.ones((2, 3, 4, 3))
        ),
        ValueError,
        ["`attention_mask` of MultiHeadAttention", "(2, 1, None, 4, 3)", "(2, 3, 1, 4, 3)"],
    ),
    "an output shape of floats": (
        lambda: MultiHeadAttention(2, 4, output_shape=8.0),
        ValueError,
        ["Invalid `output_shape`", "8.0"],
    ),
    "two names of one argument": (
        lambda: MultiHeadAttention(2, 4, output_shape=8, output_dim=8),
        ValueError,
        ["two names for one argument", "output_dim=8"],
    ),
    "an empty window": (
        lambda: drop_in.MultiHeadAttention(2, 4, sliding_window=0),
        ValueError,
        ["`sliding_window` of MultiHeadAttention", "sliding_window=0"],
    ),
    "flash attention with dropout": (
        lambda: drop_in.MultiHeadAttention(2, 4, dropout=0.1, flash_attention=True),
        ValueError,
        ["Dropout is not supported", "dropout=0.1"],
    ),
    "no list": (lambda: drop_in.Attention()(QUERY), ValueError, ["must be called on a list"]),
    "a list of one": (
        lambda: drop_in.AdditiveAttention()([QUERY]),
        ValueError,
        ["AdditiveAttention layer", "length 2 or 3", "length 1"],
    ),
    "masks that are no list": (
        lambda: drop_in.Attention()([QUERY, VALUE], mask=np.ones((2, 4))),
        ValueError,
        ["layer mask must be a list"],
    ),
    "a mask of another length": (
        lambda: drop_in.Attention()([QUERY, VALUE], mask=[None, np.ones((2, 4))]),
        ValueError,
        ["`value_mask` of Attention", "(2, 3)", "shape (2, 4)"],
    ),
    "another score": (
        lambda: drop_in.Attention(score_mode="cosine"),
        ValueError,
        ["score_mode", "'cosine'", "keras_attention.Attention"],
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_came_and_the_way_out(case):
    make, kind, parts = ERRORS[case]
    with pytest.raises(kind) as caught:
        make()
    for part in parts:
        assert part in str(caught.value)
