"""Transformers over token ids: a cached step equals the full forward pass, published sizes."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention._backend import rows_of
from zoo import decoding
from zoo.models.text_encoder import TextEmbedding, TextEncoder
from zoo.models.transformer import TokenEmbedding
from zoo.models.transformer_lm import TransformerLanguageModel
from zoo.models.transformer_nmt import TransformerTranslator

POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "t5", "shaw"]
VOCABULARY = 30
SIZES = {"num_layers": 2, "size": 16, "num_heads": 2, "hidden": 24, "dropout": 0.3}
RNG = np.random.default_rng(0)


def scrambled(core):
    """Moves all weights far from their small initial values, biases included."""
    core.build()
    generator = np.random.default_rng(1)  # the same whatever tests ran before
    for weight in core.trainable_weights:
        weight.assign(weight + generator.normal(scale=0.2, size=weight.shape))
    return core


def translator(position="sinusoidal", normalize="post", **options):
    options = {"max_length": 20, **SIZES, **options}
    return scrambled(
        TransformerTranslator(VOCABULARY, position=position, normalize=normalize, **options)
    )


def language_model(position="rotary", normalize="pre", **options):
    options = {"context_length": 20, **SIZES, **options}
    return scrambled(
        TransformerLanguageModel(VOCABULARY, position=position, normalize=normalize, **options)
    )


def tokens(*shape):
    return RNG.integers(3, VOCABULARY, shape).astype("int32")


SOURCE = tokens(3, 6)
SOURCE[1, 4:] = SOURCE[2, 1:] = 0
TARGET = tokens(3, 7)


def translator_logits(core, source_ids, target_ids):
    context, state = core.start(source_ids, target_ids.shape[1])
    found = []
    for ids in target_ids.T:
        logits, state, weights = core.step(ids, state, context)
        found.append(logits.numpy())
    return np.stack(found, axis=1), weights.numpy()


def language_model_logits(core, prompt_ids, ids):
    """Logits after a prompt and after each of `ids` (batch, length)."""
    context, state = core.start(prompt_ids, ids.shape[1] + 1)
    found = []
    for token in np.concatenate([prompt_ids[:, -1:], ids], axis=1).T:
        logits, state, _ = core.step(token, state, context)
        found.append(logits.numpy())
    return np.stack(found, axis=1)


# --------------------------------------------------------------- cached steps, logit for logit


@pytest.mark.few(1)
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize("position", POSITIONS)
def test_steps_of_a_translator_equal_the_full_forward_pass(position, normalize):
    core = translator(position, normalize)
    inputs = {"source_ids": SOURCE, "target_ids": TARGET}
    full, weights = core(inputs, return_attention_scores=True)
    assert full.numpy().std() > 0.1
    found, of_last_step = translator_logits(core, SOURCE, TARGET)
    np.testing.assert_allclose(found, full, atol=2e-5)
    of_layers_and_heads = np.concatenate(weights["cross"], axis=1)[:, :, -1]
    np.testing.assert_allclose(of_last_step, of_layers_and_heads.mean(axis=1), atol=2e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("normalize", ["post", "pre"])
@pytest.mark.parametrize("position", POSITIONS)
def test_steps_of_a_language_model_equal_the_full_forward_pass(position, normalize):
    core = language_model(position, normalize)
    ids = tokens(3, 11)
    full = core(ids).numpy()
    assert full.std() > 0.1
    for prompt in (1, 4):
        found = language_model_logits(core, ids[:, :prompt], ids[:, prompt:])
        np.testing.assert_allclose(found, full[:, prompt - 1 :], atol=2e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        {"normalize": "sandwich", "soft_cap": 1.5, "output_soft_cap": 2.0, "global_position": "t5"},
        {"parallel": True, "score": "dot", "position": "learned"},
    ],
    ids=["sandwich", "parallel"],
)
def test_some_blocks_have_a_window(options):
    core = language_model(window=3, global_layers=[1], num_layers=3, **options)
    ids = tokens(2, 9)
    full, weights = core(ids, return_attention_scores=True)
    assert full.numpy().std() > 0.1
    assert np.abs(full).max() < options.get("output_soft_cap", np.inf)
    earlier = np.tri(9, dtype=bool)
    for place, found in enumerate(weights):
        seen = earlier if place == 1 else earlier & ~np.tri(9, k=-3, dtype=bool)
        np.testing.assert_array_equal(found.numpy() > 0, np.broadcast_to(seen, found.shape))
    for prompt in (1, 5):
        found = language_model_logits(core, ids[:, :prompt], ids[:, prompt:])
        np.testing.assert_allclose(found, full[:, prompt - 1 :], atol=2e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("position", POSITIONS)
def test_padding_in_front_of_a_prompt_changes_nothing(position):
    core = language_model(position)
    ids = tokens(2, 8)
    padded = np.concatenate([[[0, 0, 0], [0, 0, 0]], ids[:, :3]], axis=1).astype("int32")
    padded[1, :4] = 0  # the second prompt is shorter
    found = language_model_logits(core, padded, ids[:, 3:])
    np.testing.assert_allclose(found[0], core(ids[:1]).numpy()[0, 2:], atol=2e-5)
    np.testing.assert_allclose(found[1], core(ids[1:, 1:]).numpy()[0, 1:], atol=2e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
def test_padding_of_the_source_changes_nothing(position):
    core = translator(position)
    padded = np.pad(SOURCE, [(0, 0), (0, 4)])
    expected = core({"source_ids": SOURCE, "target_ids": TARGET})
    found = core({"source_ids": padded, "target_ids": TARGET})
    np.testing.assert_allclose(found, expected, atol=2e-5)
    logits, weights = translator_logits(core, padded, TARGET)
    np.testing.assert_allclose(logits, expected, atol=2e-5)
    np.testing.assert_array_equal(weights[padded == 0], 0.0)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.full
def test_steps_in_half_precision_stay_near_the_full_forward_pass():
    core = translator(dtype="mixed_bfloat16")
    full = core({"source_ids": SOURCE, "target_ids": TARGET}).numpy()
    found, _ = translator_logits(core, SOURCE, TARGET)
    np.testing.assert_allclose(found, full, atol=0.15)


# ------------------------------------------------------------ whole decodes, token for token


def log_probs_of(core, source_ids, hypotheses):
    """Log-probabilities of equally long hypotheses with their end, by the full forward pass."""
    count = len(hypotheses)
    ids = np.array([[1, *each, 2] for each in hypotheses], "int32")
    inputs = {"source_ids": np.repeat(source_ids, count, axis=0), "target_ids": ids[:, :-1]}
    log_probs = tf.nn.log_softmax(core(inputs)).numpy()
    return np.take_along_axis(log_probs, ids[:, 1:, None], axis=-1).sum(axis=(1, 2))


@pytest.mark.full  # tests of tasks do so, too
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("position", "jit_compile"),
    [*((position, False) for position in POSITIONS), ("sinusoidal", True), ("rotary", True)],
)
def test_greedy_with_a_cache_equals_greedy_without(position, jit_compile):
    core = translator(position)
    ids = np.ones([len(SOURCE), 1], "int32")
    for _ in range(9):
        scores = core({"source_ids": SOURCE, "target_ids": ids}).numpy()[:, -1]
        scores[:, [0, 1]] = -np.inf
        ids = np.append(ids, scores.argmax(axis=1)[:, None].astype("int32"), axis=1)
    expected = [list(itertools.takewhile(lambda token: token != 2, row)) for row in ids[:, 1:]]

    @tf.function(jit_compile=jit_compile, autograph=False)
    def greedy(source_ids):
        limits = tf.fill([3], 9)
        options = {"start_id": 1, "end_id": 2, "max_lengths": limits, "max_length": 9}
        return decoding.decode(core.step, *core.start(source_ids, 9), "greedy", **options)

    found = greedy(tf.constant(SOURCE))
    pairs = zip(found.token_ids.numpy()[:, 0], found.lengths.numpy()[:, 0], strict=True)
    assert [ids[:length].tolist() for ids, length in pairs] == expected


def test_beams_that_take_each_others_place_keep_their_own_caches():
    """Beam search over a tiny vocabulary finds the same as exhaustive search without a cache."""
    keras.utils.set_random_seed(2)
    core = scrambled(TransformerTranslator(6, position="rotary", **SIZES))
    source_ids, longest = np.array([[3, 4, 5, 2]], "int32"), 4
    scores = {}
    for length in range(longest):
        hypotheses = list(itertools.product([3, 4, 5], repeat=length))
        scores |= zip(hypotheses, log_probs_of(core, source_ids, hypotheses), strict=True)
    best = sorted(scores, key=scores.get, reverse=True)[:5]
    decoded = decoding.decode(
        core.step,
        *core.start(tf.constant(source_ids), longest),
        decoding.get("beam", num_beams=27, num_return_sequences=5, length_penalty=0.0),
        start_id=1,
        end_id=2,
        max_lengths=[longest],
    )
    # Hypotheses that were cut off before their end do not count.
    ended = [
        (tuple(ids[:length].tolist()), log_prob)
        for ids, length, log_prob in zip(
            decoded.token_ids.numpy()[0],
            decoded.lengths.numpy()[0],
            decoded.log_probs.numpy()[0],
            strict=True,
        )
        if length < longest
    ]
    assert ended
    assert [hypothesis for hypothesis, _ in ended] == best[: len(ended)]
    for hypothesis, log_prob in ended:
        assert log_prob == pytest.approx(scores[hypothesis], abs=1e-4)


# ----------------------------------------------------------------------------- sizes and training

PUBLISHED = [  # Vaswani et al. 2017, table 3, in millions; a shared vocabulary of 37,000
    pytest.param({}, 65, id="base"),
    pytest.param(
        {"size": 1024, "num_heads": 16, "hidden": 4096, "dropout": 0.3},
        213,
        id="big",
        marks=pytest.mark.full,
    ),
]


@pytest.mark.full
@pytest.mark.parametrize(("options", "millions"), PUBLISHED)
def test_published_models_have_the_published_size(options, millions):
    core = TransformerTranslator(37000, **options)
    core.build()
    size, hidden = core.embedding.size, core.config.hidden
    dense = 4 * (size * size + size)
    feed_forward = 2 * size * hidden + hidden + size
    encoder, decoder = dense + feed_forward + 4 * size, 2 * dense + feed_forward + 6 * size
    assert core.count_params() == 37000 * size + 6 * (encoder + decoder)
    assert core.count_params() / 1e6 == pytest.approx(millions, rel=0.03)


@pytest.mark.full
@pytest.mark.parametrize("options", [options.values[0] for options in PUBLISHED])
def test_published_models_train(options):
    core = TransformerTranslator(37000, **options)
    core.build()
    core.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(True))
    before = core.embedding.table.numpy()[:5].copy()
    inputs = {"source_ids": tokens(1, 3), "target_ids": tokens(1, 3)}
    loss = core.train_on_batch(inputs, tokens(1, 3))
    assert np.isfinite(loss)
    assert np.abs(core.embedding.table.numpy()[:5] - before).max() > 0


def test_a_language_model_has_the_size_of_its_parts():
    core = TransformerLanguageModel(259, num_layers=6, size=288, num_heads=6)
    core.build()
    assert core.count_params() == 259 * 288 + 6 * (12 * 288 * 288 + 4 * 288) + 2 * 288


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [translator, language_model])
def test_every_weight_learns(make):
    core = make()
    inputs = SOURCE if make is language_model else {"source_ids": SOURCE, "target_ids": TARGET}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(core(inputs, training=True)))
    gradients = tape.gradient(loss, core.trainable_variables)
    for variable, gradient in zip(core.trainable_variables, gradients, strict=True):
        if "key/bias" not in variable.path:  # adds the same to all scores of a query
            assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, variable.path


def test_dropout_acts_in_training_alone():
    core = language_model(dropout=0.5)
    np.testing.assert_array_equal(core(SOURCE), core(SOURCE))
    assert np.abs(core(SOURCE, training=True) - core(SOURCE)).max() > 0.1


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [translator, language_model])
def test_weights_of_all_blocks_come_with_the_logits(make):
    core = make()
    inputs = SOURCE if make is language_model else {"source_ids": SOURCE, "target_ids": TARGET}
    logits, weights = core(inputs, return_attention_scores=True)
    np.testing.assert_allclose(logits, core(inputs), atol=1e-6)
    of_kinds = weights.values() if make is translator else [weights]
    assert all(len(each) == SIZES["num_layers"] for each in of_kinds)


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [translator, language_model])
def test_it_comes_back_from_a_file(make, tmp_path):
    core = make()
    inputs = SOURCE if make is language_model else {"source_ids": SOURCE, "target_ids": TARGET}
    core.save(tmp_path / "core.keras")
    loaded = keras.saving.load_model(tmp_path / "core.keras")
    np.testing.assert_array_equal(loaded(inputs), core(inputs))
    assert loaded.config == core.config


# -------------------------------------------------------------------------------------- embedding


def test_an_embedding_is_scaled_and_moved_by_its_position():
    layer = TokenEmbedding(10, 4, position="sinusoidal")
    layer.build()
    ids = np.array([[3, 7]])
    table = layer.table.numpy().astype("float64")
    angles = np.arange(5)[:, None] * np.array([1.0, 1e-2])
    place = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(5, 4)
    np.testing.assert_allclose(layer(ids), 2 * table[ids] + place[:2], atol=1e-6)
    np.testing.assert_allclose(layer(ids, start=3), 2 * table[ids] + place[3:], atol=1e-6)
    rows = np.repeat(ids, 2, axis=0)
    found = layer(rows, start=np.array([2, -1], "int32"))  # -1 is padding, and counts as 0
    np.testing.assert_allclose(found[0], 2 * table[ids[0]] + place[2:4], atol=1e-6)
    np.testing.assert_allclose(found[1], 2 * table[ids[0]] + place[[0, 0]], atol=1e-6)
    x = np.ones((1, 2, 4), "float32")
    np.testing.assert_allclose(layer.logits(x), x @ table.T, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_logits_with_a_bias_are_in_float32(dtype):
    layer = TokenEmbedding(10, 4, output_bias=True, dtype=dtype)
    layer.build()
    layer.table.assign(np.ones((10, 4)))
    layer.bias.assign(np.arange(10.0))
    logits = layer.logits(keras.ops.ones((1, 4), dtype))
    assert logits.dtype == "float32"
    np.testing.assert_array_equal(logits[0], 4.0 + np.arange(10.0))


@pytest.mark.parametrize("kind", [TransformerTranslator, TransformerLanguageModel])
def test_an_unknown_position_gets_the_nearest(kind):
    with pytest.raises(ValueError, match="position 'rotery'.*Did you mean 'rotary'"):
        kind(VOCABULARY, position="rotery", **SIZES)


def test_gradients_of_a_frequent_token_are_summed_in_float32():
    table, ids = tf.ones((2, 3), tf.bfloat16), np.zeros((5, 1000), "int32")
    with tf.GradientTape() as tape:
        tape.watch(table)
        total = tf.reduce_sum(tf.cast(rows_of(table, ids, training=True), tf.float32))
    found = tape.gradient(total, table)  # bfloat16 does not count beyond 256
    np.testing.assert_allclose(tf.cast(found, tf.float32), [[5000.0] * 3, [0.0] * 3], rtol=0.01)


def test_gradients_of_tokens_keep_double_precision():
    table = tf.ones((2, 3), tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(table)
        total = tf.reduce_sum(rows_of(table, np.array([1]), training=True) / 3)
    np.testing.assert_allclose(tape.gradient(total, table)[1], 1 / 3, rtol=1e-15)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "make",
    [
        lambda: TokenEmbedding(9, 4, max_length=5),
        lambda: TextEmbedding(TextEncoder.Config(9, size=4, num_heads=2, head="masked")),
    ],
    ids=["tokens", "texts"],
)
def test_a_token_learns_as_fast_however_often_it_occurs(make):
    """The first step of Adam moves every weight with a gradient by the learning rate."""
    embedding, ids = make(), np.array([[5, 5, 5, 5, 7], [5, 5, 5, 3, 3]])
    embedding.build(ids.shape)
    table = next(x for x in embedding.trainable_variables if x.shape == (9, 4))
    before = table.numpy()
    model = keras.Sequential([keras.Input((5,), dtype="int32"), embedding])
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    model.fit(ids, RNG.normal(size=(2, 5, 4)), verbose=0)
    moved = np.abs(table.numpy() - before)
    np.testing.assert_allclose(moved[[3, 5, 7]], 0.01, rtol=0.02)
    np.testing.assert_array_equal(moved[[0, 1, 2, 4, 6, 8]], 0.0)
