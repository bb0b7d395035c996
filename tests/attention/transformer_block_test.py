"""The block around any attention layer: equation, masks, symbolic calls, files and errors."""

import keras
import numpy as np
import pytest

from keras_attention import (
    Attention,
    BlockSelectionAttention,
    ConformerBlock,
    CrossCovarianceAttention,
    DifferentialAttention,
    EncoderBlock,
    ForgettingAttention,
    GatedDeltaAttention,
    GatedLinearAttention,
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
    TalkingHeadsAttention,
    TransformerBlock,
)
from keras_attention._keras import get_keras_mask
from tests.attention import oracle
from tests.attention.blocks import feed_forward, layer_norm

BATCH, LENGTH, SIZE = 2, 6, 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, SIZE)).astype("float32")
MASK = np.arange(LENGTH) < [[LENGTH], [4]]

LAYERS = {
    "attention": lambda: Attention("general"),
    "several heads": lambda: MultiHeadAttention(2, 4, position="rotary"),
    "differential": lambda: DifferentialAttention(2, 4, position="rotary"),
    "forgetting": lambda: ForgettingAttention(2, 4),
    "talking heads": lambda: TalkingHeadsAttention(2, 4, position="rotary"),
    "block selection": lambda: BlockSelectionAttention(2, 4, block_size=2, num_blocks=2),
    "latent": lambda: LatentAttention(2, 4, latent_dim=6, rotary_dim=2, mask="causal"),
    "linear": lambda: LinearAttention(2, 4, causal=True),
    "performer": lambda: PerformerAttention(2, 4),
    "linformer": lambda: LinformerAttention(2, 4, projected_length=3, max_length=LENGTH),
    "longformer": lambda: LongformerAttention(2, 4, window=2),
    "nystrom": lambda: NystromAttention(2, 4, num_landmarks=3, kernel_size=3),
    "cross-covariance": lambda: CrossCovarianceAttention(2, 4),
    "reformer": lambda: ReformerAttention(2, 4, bucket_size=2),
    "gated delta": lambda: GatedDeltaAttention(2, 4),
    "retention": lambda: RetentionAttention(2, 4),
    "gated linear": lambda: GatedLinearAttention(2, 4),
    "Kimi delta": lambda: KimiDeltaAttention(2, 4),
    "local": lambda: LocalAttention(half_width=2),
    "keras": lambda: keras.layers.MultiHeadAttention(2, 4),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize("name", LAYERS)
def test_it_adds_what_the_layer_finds(name, normalize):
    block = TransformerBlock(LAYERS[name](), 12, normalize)
    found, weights = block(X, mask=MASK, return_attention_scores=True)
    x = oracle.float64(X)
    query = x if normalize == "post" else layer_norm(block.attention_norm, x)
    query = query.astype("float32")
    context, expected = block.attention(
        query, query, query_mask=MASK, value_mask=MASK, return_attention_scores=True
    )
    x = x + oracle.float64(context)
    if normalize == "post":
        x = layer_norm(block.attention_norm, x)
        x = layer_norm(block.feed_forward_norm, x + feed_forward(block.feed_forward, x))
    else:
        x = x + feed_forward(block.feed_forward, layer_norm(block.feed_forward_norm, x))
    np.testing.assert_allclose(oracle.float64(found), x, atol=2e-5)
    np.testing.assert_allclose(oracle.float64(weights), oracle.float64(expected), atol=2e-5)


def test_with_several_heads_it_is_an_encoder_block():
    encoder = EncoderBlock(2, 12, norm="rms", gated=True, activation="silu", use_bias=False)
    encoder(X)
    attention = MultiHeadAttention(2, 4, use_bias=False)
    options = {"norm": "rms", "gated": True, "activation": "silu", "use_bias": False}
    block = TransformerBlock(attention, 12, **options)
    block(X)
    given = {weight.path.partition("/")[2]: weight for weight in encoder.weights}
    for weight in block.weights:
        inside = weight.path.partition("/")[2].replace(f"{attention.name}/", "attention/")
        weight.assign(given.pop(inside))
    assert not given
    found, expected = (oracle.float64(each(X, mask=MASK)) for each in (block, encoder))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", LAYERS)
def test_unknown_lengths_are_known_when_called(name):
    inputs = keras.Input((None, SIZE))
    block = TransformerBlock(LAYERS[name](), 12)
    outputs = block(inputs, return_attention_scores=True)
    assert outputs[0].shape == block(inputs).shape == inputs.shape
    found = keras.Model(inputs, outputs)(X)
    for symbolic, each, expected in zip(
        outputs, found, block(X, return_attention_scores=True), strict=True
    ):
        assert symbolic.dtype == keras.backend.standardize_dtype(each.dtype)
        pairs = zip(symbolic.shape, each.shape, strict=True)
        assert all(size in (None, real) for size, real in pairs)
        np.testing.assert_allclose(oracle.float64(each), oracle.float64(expected), atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="is about symbolic sizes of JAX")
@pytest.mark.parametrize(
    "name",
    [
        "block selection",
        "cross-covariance",
        "gated delta",
        "Kimi delta",
        "latent",
        "linear",
        "linformer",
        "longformer",
        "nystrom",
        "reformer",
        "retention",
    ],
)
def test_exported_for_unknown_lengths(name):
    import jax
    from jax import export

    layer = LAYERS[name]()
    layer.build(X.shape, X.shape)
    call = jax.jit(lambda x, mask: layer(x, x, value_mask=mask))
    shape = export.symbolic_shape("batch, length")
    inputs = (jax.ShapeDtypeStruct((*shape, SIZE), "float32"), jax.ShapeDtypeStruct(shape, "bool"))
    exported = export.export(call)(*inputs)
    x, mask = X[:, :5], MASK[:, :5]
    found, expected = oracle.float64(exported.call(x, mask)), oracle.float64(call(x, mask))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_causal_layers_make_causal_blocks():
    block = TransformerBlock(LinearAttention(2, 4, causal=True), 12)
    other = X.copy()
    other[:, 4:] = RNG.normal(size=(BATCH, 2, SIZE))
    found, expected = (oracle.float64(block(each))[:, :4] for each in (other, X))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.full
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="one backend is enough")
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("mode", [None, "full"])
def test_a_model_of_such_blocks_learns_and_comes_back_from_its_file(tmp_path, mode):
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, SIZE, mask_zero=True)(tokens)
    with keras.RematScope(mode=mode):
        blocks = [
            TransformerBlock(LinearAttention(2, 4), 12, dropout=0.1, name="linear"),
            TransformerBlock(LocalAttention(half_width=1), 12, normalize="pre", name="local"),
        ]
    for block in blocks:
        x = block(x)
        assert x.shape == (None, None, SIZE)
    model = keras.Model(tokens, keras.layers.GlobalAveragePooling1D()(x))
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    ids = RNG.integers(1, 9, (BATCH, LENGTH)) * MASK
    losses = model.fit(ids, np.ones((BATCH, SIZE)), epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("local").attention.half_width == 1
    expected = model.predict(ids, verbose=0)
    np.testing.assert_allclose(loaded.predict(ids, verbose=0), expected, atol=1e-6)
    shorter = model.predict(ids[1:, :4], verbose=0)  # padding changes nothing
    np.testing.assert_allclose(shorter, expected[1:], atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TransformerBlock(8, 12), "must be an attention layer.*=8.*use EncoderBlock"),
        (lambda: TransformerBlock(LinearAttention, 12), "must be an attention layer"),
        (lambda: TransformerBlock(keras.layers.Dense(8), 12), "called with query, value, query_"),
        (lambda: TransformerBlock(keras.layers.Attention(), 12), "must be an attention layer"),
        (lambda: TransformerBlock(NadarayaWatson(), 12), "must be an attention layer"),
        (
            lambda: TransformerBlock(LinearAttention(2, 4, output_dim=6), 12)(X),
            r"the shape of `x`.*LinearAttention of output shape \(2, 6, 6\), x of .*\(2, 6, 8\)",
        ),
        (
            lambda: TransformerBlock(LinearAttention(2, 4), 12)(X[0]),
            r"TransformerBlock needs x of shape \(batch, length, size\)",
        ),
        (
            lambda: TransformerBlock(LinearAttention(2, 4), 12, use_bias=["query"]),
            "True, False, or a collection of feed_forward",
        ),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.few(4)
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize(
    "name",
    ["encoder", "attention", "several heads", "differential", "talking heads", "latent", "keras"],
)
def test_a_call_takes_a_mask_of_pairs(name, normalize):
    if name == "encoder":
        block = EncoderBlock(2, 12, normalize=normalize)
    else:
        layer = Attention("general") if name == "attention" else LAYERS[name]()
        block = TransformerBlock(layer, 12, normalize)
    packed = np.array([[1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 2, 2]])
    pairs = packed[:, :, None] == packed[:, None, :]
    found = oracle.float64(block(X, attention_mask=pairs))
    for example, ids in enumerate(packed):
        for each in (1, 2):
            alone = oracle.float64(block(X[example : example + 1, ids == each]))[0]
            np.testing.assert_allclose(found[example, ids == each], alone, atol=1e-5)


@pytest.mark.parametrize("make", [lambda: EncoderBlock(2, 12), lambda: ConformerBlock(2, 12)])
def test_a_mask_of_pairs_counts_beside_padding(make):
    tokens, pairs = keras.Input((LENGTH,)), keras.Input((LENGTH, LENGTH), dtype="bool")
    x = keras.layers.Embedding(4, SIZE, mask_zero=True)(tokens)
    output, weights = make()(x, attention_mask=pairs, return_attention_scores=True)
    assert get_keras_mask(output) is not None
    ids, earlier = np.array([[1, 2, 3, 1, 0, 0]] * BATCH), np.tri(LENGTH, dtype=bool)
    found = keras.Model([tokens, pairs], weights)([ids, np.stack([earlier] * BATCH)])
    seen = earlier & (ids[0] > 0) & (ids[0] > 0)[:, None]
    np.testing.assert_array_equal(oracle.float64(found) > 0, np.broadcast_to(seen, found.shape))


def test_an_approximation_refuses_a_mask_of_pairs():
    with pytest.raises(ValueError, match="LinearAttention cannot honour `attention_mask`"):
        TransformerBlock(LAYERS["linear"](), 12)(X, attention_mask=np.ones((LENGTH, LENGTH)))
