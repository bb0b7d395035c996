"""Every argument survives a config, a `.keras` file and a new process."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    AttentionCell,
    AttentionGate,
    AttentionPooling,
    AttentionRNN,
    BlockSelectionAttention,
    ChannelAttention,
    Coverage,
    CrossCovarianceAttention,
    DecoderBlock,
    EncoderBlock,
    GatedDeltaAttention,
    GatedLinearAttention,
    GaussianMixtureAttention,
    KimiDeltaAttention,
    LatentAttention,
    LinearAttention,
    LinformerAttention,
    LocalAttention,
    LongformerAttention,
    MultiHeadAttention,
    NadarayaWatson,
    NystromAttention,
    PerformerAttention,
    ReformerAttention,
    RetentionAttention,
    SlotAttention,
    SpatialAttention,
    TalkingHeadsAttention,
    TransformerBlock,
    alignments,
    masks,
    normalizers,
    positions,
    scores,
)
from keras_attention.feed_forward import FeedForward
from tests.attention.saved import check_config, check_file

PAIRS = np.tri(3, 6, 2, dtype=bool)


ATTENTION = {
    "score": scores.Additive(units=3, kernel_initializer=keras.initializers.HeNormal(seed=1)),
    "normalizer": normalizers.Softmax(),
    "mask": masks.Causal() & ~masks.Array(~PAIRS),
    "position": positions.ALiBi(name="alibi"),
    "soft_cap": 30.0,
    "dropout": 0.25,
    "implementation": "reference",
    "seed": 7,
    "name": "look",
    "dtype": "mixed_bfloat16",
}
MULTI_HEAD = {
    **ATTENTION,
    "score": scores.General(kernel_initializer="ones"),
    "num_heads": 2,
    "key_dim": 3,
    "value_dim": 4,
    "num_key_value_heads": 1,
    "query_key_norm": 0.01,
    "joint_query_key_norm": True,
    "output_dim": 5,
    "use_bias": False,
    "kernel_initializer": keras.initializers.HeNormal(seed=2),
}
CELL = {
    "cell": keras.layers.LSTMCell(4, dropout=0.1),
    "attention": Attention("general", dropout=0.3),
    "order": "luong",
    "units": 6,
    "coverage": Coverage(filters=2, kernel_size=3, history="both"),
    "alignment": alignments.Stepwise(noise=2.0, initial_bias=3.5, seed=5),
    "name": "step",
}
RNN = {"cell": AttentionCell(**CELL), "name": "steps"}
EVERY_ARGUMENT = [
    (Attention, ATTENTION),
    (MultiHeadAttention, MULTI_HEAD),
    (AttentionCell, CELL),
    (AttentionRNN, RNN),
    (Coverage, {"filters": 2, "kernel_size": 3, "history": "previous", "name": "seen"}),
    (alignments.Forward, {"name": "ahead"}),
    (alignments.Monotonic, {"noise": 0.5, "initial_bias": -4.0, "seed": 3, "name": "ahead"}),
    (scores.Dot, {"name": "dot"}),
    (scores.ScaledDot, {"scale": 0.25, "name": "scaled"}),
    (scores.General, {"kernel_initializer": keras.initializers.HeNormal(seed=3)}),
    (scores.Additive, {"units": 3, "kernel_initializer": keras.initializers.HeNormal(seed=4)}),
]


@pytest.mark.parametrize(("layer_class", "arguments"), EVERY_ARGUMENT)
def test_config_has_every_argument_and_makes_the_same_layer(layer_class, arguments):
    check_config(layer_class, arguments)


ONE, TWO, HALF = np.int64(1), np.int32(2), np.float32(0.5)
NUMBERS_OF_NUMPY = [
    (Attention, {"soft_cap": HALF, "dropout": HALF}),
    (MultiHeadAttention, {"num_heads": TWO, "key_dim": TWO, "num_key_value_heads": ONE}),
    (MultiHeadAttention, {"num_heads": 2, "key_dim": 4, "value_dim": TWO, "output_dim": TWO}),
    (PerformerAttention, {"num_heads": TWO, "key_dim": TWO, "num_features": TWO}),
    (LinformerAttention, {"num_heads": 2, "key_dim": TWO, "projected_length": TWO}),
    (LongformerAttention, {"num_heads": 2, "key_dim": TWO, "window": TWO}),
    (LongformerAttention, {"num_heads": TWO, "key_dim": 2, "num_global_tokens": TWO}),
    (NystromAttention, {"num_heads": 2, "key_dim": TWO, "num_landmarks": TWO, "kernel_size": TWO}),
    (CrossCovarianceAttention, {"num_heads": TWO, "key_dim": TWO}),
    (ReformerAttention, {"num_heads": 2, "key_dim": 2, "bucket_size": TWO, "num_hashes": TWO}),
    (BlockSelectionAttention, {"num_heads": 2, "key_dim": 2, "block_size": TWO, "num_blocks": ONE}),
    (LatentAttention, {"num_heads": 2, "key_dim": 2, "latent_dim": TWO, "rotary_dim": TWO}),
    (LocalAttention, {"half_width": TWO, "units": TWO}),
    (GaussianMixtureAttention, {"num_components": TWO, "units": TWO, "initial_width": HALF}),
    (NadarayaWatson, {"width": TWO}),
    (ChannelAttention, {"reduction": TWO, "kernel_size": ONE}),
    (AttentionGate, {"units": TWO, "strides": ONE}),
    (SlotAttention, {"num_slots": TWO, "slot_size": TWO, "epsilon": HALF}),
    (alignments.Stepwise, {"noise": HALF, "initial_bias": TWO}),
    (EncoderBlock, {"num_heads": TWO, "hidden": TWO, "key_dim": TWO, "dropout": HALF}),
    (FeedForward, {"hidden": TWO, "dropout": HALF}),
    (scores.Cosine, {"sharpness": HALF}),
    (scores.Gaussian, {"width": TWO, "learned_width": True}),
    (scores.Additive, {"units": TWO}),
    (scores.RandomSynthesizer, {"max_length": np.int64(8), "rank": TWO}),
    (positions.LearnedPosition, {"max_length": np.int64(8), "mode": "concatenate", "size": TWO}),
    (positions.SinusoidalPosition, {"max_wavelength": np.int64(500)}),
]


@pytest.mark.few(12)
@pytest.mark.parametrize(("layer_class", "arguments"), NUMBERS_OF_NUMPY)
def test_numbers_of_numpy_are_numbers(layer_class, arguments):
    layer, x = layer_class(**arguments), np.ones((2, 4, 4), "float32")
    number_of_inputs = {NadarayaWatson: 3}
    number_of_inputs |= dict.fromkeys(
        [ChannelAttention, EncoderBlock, FeedForward, SlotAttention], 1
    )
    is_embedding = issubclass(layer_class, positions.PositionEmbedding)
    layer(*[x] * (1 if is_embedding else number_of_inputs.get(layer_class, 2)))
    config = layer.get_config()
    assert {name: config[name] for name in arguments} == arguments
    check_config(layer_class, arguments)


def test_arguments_may_be_names_objects_or_configs():
    layer = Attention("additive", "softmax", "causal")
    config = layer.get_config()
    again = Attention(config["score"], config["normalizer"], config["mask"])
    assert isinstance(again.score, scores.Additive)
    assert isinstance(again.normalizer, normalizers.Softmax)
    assert isinstance(again.mask, masks.Causal)
    assert Attention(again.score).score is again.score


def model_of_every_layer():
    """A model with every layer, order and score; some layers have a mask of a different kind."""
    query, memory = keras.Input((3, 5), name="query"), keras.Input((6, 5), name="memory")
    visible = keras.Input((6,), dtype="bool", name="visible")
    outputs = {
        score: Attention(score, mask=masks.Causal() | masks.Array(PAIRS))(
            query, memory, value_mask=visible
        )
        for score in scores.names()
    }
    outputs["multi_head"], outputs["weights"] = MultiHeadAttention(**MULTI_HEAD)(
        query, memory, value_mask=visible, return_attention_scores=True
    )
    for order in ("bahdanau", "conditional", "luong"):
        cell = AttentionCell(
            keras.layers.LSTMCell(4), MultiHeadAttention(2, 3, score="additive"), order=order
        )
        outputs[order] = AttentionRNN(cell)(query, memory, memory_mask=visible)
    pooling = AttentionPooling(MultiHeadAttention(2, 3), num_queries=2)
    outputs["pooled"] = pooling(memory, mask=visible)
    outputs["places"] = SpatialAttention(3)(ChannelAttention(2)(memory, mask=visible))
    outputs["gated"] = AttentionGate(3, strides=2)(memory, query, mask=visible)
    outputs["slots"] = SlotAttention(2, 3, learned_slots=True)(memory, mask=visible)
    cell = AttentionCell(keras.layers.GRUCell(4), coverage=Coverage(2, 3, history="both"))
    outputs["coverage"] = AttentionRNN(cell)(query, memory, memory_mask=visible)
    cell = AttentionCell(keras.layers.GRUCell(4), GaussianMixtureAttention(2, 3))
    outputs["places"] = AttentionRNN(cell)(query, memory, memory_mask=visible)
    for alignment in alignments.names():
        cell = AttentionCell(keras.layers.GRUCell(4), alignment=alignment)
        outputs[alignment] = AttentionRNN(cell)(query, memory, memory_mask=visible)
    outputs["encoder"] = EncoderBlock(2, 5, key_dim=4, position="rotary", gated=True)(memory)
    outputs["decoder"] = DecoderBlock(2, 5, key_dim=4, position="t5", norm="rms")(query, memory)
    for layer in (
        LocalAttention("predictive", 2, units=3),
        LatentAttention(2, 3, latent_dim=4, rotary_dim=2),
        TalkingHeadsAttention(2, 3),
        BlockSelectionAttention(2, 3, block_size=2, num_blocks=2),
        LinearAttention(2, 3),
        PerformerAttention(2, 3, num_features=5),
        LinformerAttention(2, 3, projected_length=2, max_length=9),
        LongformerAttention(2, 3, window=2),
        NystromAttention(2, 3, num_landmarks=4, kernel_size=3),
        CrossCovarianceAttention(2, 3),
        ReformerAttention(2, 3, bucket_size=2, num_hashes=2, seed=1),
        GatedDeltaAttention(2, 3, kernel_size=2),
        RetentionAttention(2, 4),
        GatedLinearAttention(2, 3),
        KimiDeltaAttention(2, 3, kernel_size=2),
    ):
        outputs[layer.name] = layer(memory, memory, value_mask=visible)
    return keras.Model({"query": query, "memory": memory, "visible": visible}, outputs)


def test_a_shared_score_shares_its_weights():
    score = scores.Additive()
    first, second = Attention(score), Attention(score)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    np.testing.assert_array_equal(first(x, x), second(x, x))
    assert len(keras.Sequential([first, second]).weights) == len(score.weights)


def test_files_keep_layers_shared_that_others_hold(tmp_path):
    inputs, attention = keras.Input((3, 4)), MultiHeadAttention(2, 3)
    cell = AttentionCell(keras.layers.GRUCell(4), attention)
    outputs = [AttentionRNN(cell)(inputs, inputs) for _ in range(2)]
    outputs += [TransformerBlock(attention, 5)(inputs), AttentionPooling(attention)(inputs)]
    model = keras.Model(inputs, outputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    for found, expected in zip(loaded(x), model(x), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.full
def test_saved_file_gives_the_same_in_a_process_that_only_imports_the_package(tmp_path):
    model = model_of_every_layer()
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    inputs = {
        "query": rng.normal(size=(2, 3, 5)).astype("float32"),
        "memory": rng.normal(size=(2, 6, 5)).astype("float32"),
        "visible": rng.random((2, 6)) < 0.7,
    }
    check_file(model, inputs, tmp_path)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about SavedModel")
def test_exported_model_gives_the_same_for_every_length(tmp_path):
    import tensorflow as tf

    query, memory = keras.Input((None, 4)), keras.Input((None, 4))
    context = MultiHeadAttention(2, 3, score="additive", mask="causal")(query, memory)
    outputs = AttentionRNN(AttentionCell(keras.layers.GRUCell(3)))(context, memory)
    model = keras.Model([query, memory], outputs)
    model.export(tmp_path, verbose=False)
    served = tf.saved_model.load(str(tmp_path))
    rng = np.random.default_rng(0)
    for batch, queries, keys in [(2, 3, 6), (1, 5, 1)]:
        inputs = [
            rng.normal(size=(batch, length, 4)).astype("float32") for length in (queries, keys)
        ]
        np.testing.assert_allclose(served.serve(inputs), model(inputs), atol=1e-5)


@pytest.mark.full
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="is about tf2onnx")
def test_what_is_hidden_is_hidden_in_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    dense = Attention(normalizer="softmax", mask="causal")(x, x)
    x = Attention(normalizer="sparsemax")(dense, x)
    x = MultiHeadAttention(2, 2, position="kerple")(x, x)
    x = LinearAttention(2, 2)(x, x)
    model = keras.Model(tokens, ChannelAttention(pooling="both")(x))
    ids = np.array([[3, 4, 0], [5, 6, 7], [0, 0, 0]], "int32")
    expected = model(ids)
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    graph = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (found,) = graph.run(None, {graph.get_inputs()[0].name: ids})
    np.testing.assert_allclose(found, expected, atol=1e-6)


class Every(masks.Mask):
    """A mask of one's own that does not say how it is saved."""

    def __init__(self, step=2):
        self.step = step

    def tile(self, query_positions, key_positions):
        return (key_positions % self.step == 0)[None, None, None]


class SavedEvery(Every):
    def get_config(self):
        return {**super().get_config(), "step": self.step}


class Sharp(normalizers.Normalizer):
    """A normalizer of one's own that does not say how it is saved."""

    def __init__(self, power):
        self.power = power

    def __call__(self, scores, visible=None, training=None):
        return normalizers.Softmax()(self.power * scores, visible)


@pytest.mark.parametrize(("part", "name"), [(Every(3), "step"), (Sharp(2.0), "power")])
def test_a_part_of_ones_own_with_arguments_says_how_it_is_saved(part, name):
    kind = "mask" if isinstance(part, masks.Mask) else "normalizer"
    layer, x = Attention(**{kind: part}), np.ones((1, 4, 2), "float32")
    layer(x, x)  # works, but would be loaded with the default arguments
    message = f"`get_config` of {type(part).__name__} must return .* the arguments {name}, but"
    with pytest.raises(NotImplementedError, match=message):
        layer.get_config()


def test_a_part_of_ones_own_keeps_its_arguments():
    assert repr(Every(3) & masks.Causal()) == "Every() & Causal()"
    with keras.saving.custom_object_scope({"SavedEvery": SavedEvery}):
        layer = Attention.from_config(Attention(mask=SavedEvery(3)).get_config())
    assert layer.mask.step == 3
