"""The recurrent translators: a cached step equals the full forward pass; padding is ignored."""

import numpy as np
import pytest

MODELS = {
    "bahdanau": ("bahdanau_nmt", {}),
    "conditional": ("bahdanau_nmt", {"order": "conditional"}),
    "luong": ("luong_nmt", {}),
    "coverage": ("bahdanau_nmt", {"coverage": True}),
    "alignment": ("bahdanau_nmt", {"alignment": "forward"}),
}
PADDING = np.zeros((3, 4), "int32")


@pytest.fixture(scope="module", params=MODELS)
def core(request, fresh_model):
    architecture, options = MODELS[request.param]
    core = fresh_model(architecture, **options).core
    assert core.architecture == architecture
    rng = np.random.default_rng(0)
    for weight in core.trainable_weights:  # far from their small initial values, biases included
        weight.assign(rng.normal(scale=0.4, size=weight.shape))
    return core


@pytest.fixture(scope="module")
def batch(tokenizer):
    rng = np.random.default_rng(1)
    source_ids = rng.integers(3, tokenizer.vocabulary_size, (3, 6)).astype("int32")
    source_ids[1, 4:] = source_ids[2, 1:] = tokenizer.pad_id
    target_ids = rng.integers(3, tokenizer.vocabulary_size, (3, 7)).astype("int32")
    target_ids[:, 0] = tokenizer.start_id
    return {"source_ids": source_ids, "target_ids": target_ids}


def logits_step_by_step(core, batch):
    context, state = core.start(batch["source_ids"], 7)
    all_logits = []
    for tokens in batch["target_ids"].T:
        logits, state, _ = core.step(tokens, state, context)
        all_logits.append(logits.numpy())
    return np.stack(all_logits, axis=1)


@pytest.mark.few(2)
def test_steps_equal_the_full_forward_pass(core, batch):
    full = core(batch).numpy()
    assert full.std() > 0.1
    np.testing.assert_allclose(logits_step_by_step(core, batch), full, atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_precisions_give_logits_in_float32(dtype, fresh_model, batch):
    core, other = (fresh_model(dtype=each).core for each in ("float32", dtype))
    other.set_weights(core.get_weights())
    other.output_bias.assign(other.output_bias + 1.0)
    logits = other(batch)
    assert logits.dtype == "float32"
    np.testing.assert_allclose(logits, core(batch) + 1.0, atol=0.04)


@pytest.mark.few(1)
def test_padding_of_the_source_changes_nothing(core, batch):
    padded = {**batch, "source_ids": np.hstack([batch["source_ids"], PADDING])}
    np.testing.assert_allclose(core(padded), core(batch), atol=1e-5)
    np.testing.assert_allclose(logits_step_by_step(core, padded), core(batch), atol=1e-5)


def test_padding_of_the_source_gets_no_attention(core, batch):
    context, state = core.start(batch["source_ids"], 7)
    _, _, weights = core.step(batch["target_ids"][:, 0], state, context)
    np.testing.assert_array_equal(weights.numpy()[batch["source_ids"] == 0], 0.0)
    np.testing.assert_allclose(weights.numpy().sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.few(1)
def test_tokens_to_come_are_not_seen(core, batch):
    changed = batch["target_ids"].copy()
    changed[:, 4:] = 5
    np.testing.assert_allclose(
        core({**batch, "target_ids": changed})[:, :4], core(batch)[:, :4], atol=1e-6
    )


@pytest.mark.few(1)
def test_config_makes_the_same_model_again(core, batch):
    again = type(core).from_config(core.get_config())
    again.build()
    again.set_weights(core.get_weights())
    np.testing.assert_array_equal(again(batch), core(batch))


def test_an_unknown_cell_is_named(fresh_model):
    with pytest.raises(ValueError, match="Unknown cell 'GRU'. Known: gru, lstm"):
        fresh_model(cell="GRU")


def test_dropout_is_for_training_alone(fresh_model, batch):
    core = fresh_model(dropout=0.5).core
    assert not np.allclose(core(batch, training=True), core(batch, training=True))
    np.testing.assert_array_equal(core(batch), core(batch, training=False))
