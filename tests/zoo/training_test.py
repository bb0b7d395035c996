"""Training on raw pairs of texts: batches, loss and metrics against NumPy, and what it learns."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.zoo.conftest import TINY
from zoo.data.batching import BUCKET_WIDTH, bucket_by_length
from zoo.losses import TokenCrossentropy
from zoo.tasks.base import Task


def token_losses(labels, logits, label_smoothing=0.0):
    """Cross-entropy of each token in float64, with the smoothed target spelled out."""
    logits = np.asarray(logits, "float64")
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    size = logits.shape[-1]
    wanted = np.eye(size)[labels] * (1 - label_smoothing) + label_smoothing / size
    return -(wanted * log_probs).sum(axis=-1)


def all_batches(dataset):
    return [tf.nest.map_structure(np.array, batch) for batch in dataset]


def pad_more(batch, columns=3):
    """Appends padding to everything in a batch; the model's logits there are not zero."""
    return tf.nest.map_structure(lambda array: np.pad(array, [(0, 0), (0, columns)]), batch)


# --------------------------------------------------------------------------------------- batches


@pytest.fixture(scope="module")
def batch(bahdanau, dataset):
    """All toy pairs in one batch."""
    (batch,) = all_batches(bahdanau.batches(dataset, batch_size=8))
    return batch


def test_batches_teach_the_next_token(batch, tokenizer, sources, targets):
    inputs, labels, weights = batch
    rows = {}
    for source, start_first, end_last, weight in zip(
        inputs["source_ids"], inputs["target_ids"], labels, weights, strict=True
    ):
        length = int(weight.sum())
        np.testing.assert_array_equal(weight, np.arange(len(weight)) < length)
        assert start_first[0] == tokenizer.start_id
        assert end_last[length - 1] == tokenizer.end_id
        np.testing.assert_array_equal(start_first[1:length], end_last[: length - 1])
        assert not start_first[length:].any()
        assert not end_last[length:].any()
        rows[tuple(source[source > 0])] = end_last[: length - 1].tolist()
    source_ids = [(*ids, tokenizer.end_id) for ids in tokenizer.tokenize(sources).to_list()]
    assert rows == dict(zip(source_ids, tokenizer.tokenize(targets).to_list(), strict=True))


def test_batches_of_two_lists_are_those_of_a_data_set(bahdanau, batch, sources, targets):
    (from_lists,) = all_batches(bahdanau.batches(sources, targets, batch_size=8))
    tf.nest.map_structure(np.testing.assert_array_equal, from_lists, batch)


@pytest.mark.few(1)
@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_the_number_of_batches_of_lists_is_known(bahdanau, sources, targets, batch_size):
    sources, targets = [*sources, "a man " * 70, "a"], [*targets, "b", "ein mann " * 70]
    batches = bahdanau.batches(sources, targets, batch_size=batch_size, shuffle=True)
    assert len(batches) == len(all_batches(batches))
    dropped = bahdanau.batches(sources, targets, subword_dropout=0.5)
    assert dropped.cardinality() == tf.data.UNKNOWN_CARDINALITY


def test_bucketing_keeps_every_example_next_to_its_like():
    lengths = np.random.default_rng(0).permutation(np.arange(1, 61))
    vectors = tf.data.Dataset.from_generator(
        lambda: ((np.full(length, length), np.ones(1)) for length in lengths),
        output_signature=(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)),
    )
    batches = all_batches(bucket_by_length(vectors, batch_size=4))
    found = [longest.max(axis=1) for longest, _ in batches]
    assert all(np.ptp(lengths) < BUCKET_WIDTH for lengths in found)
    assert sorted(np.concatenate(found)) == sorted(lengths)
    assert max(map(len, found)) == 4


@pytest.mark.full
def test_subword_dropout_splits_anew_in_each_epoch(bahdanau, dataset):
    def some_batches(seed):
        return bahdanau.batches(dataset, batch_size=8, subword_dropout=0.5, seed=seed)

    def flat(batches):
        return [array.tolist() for array in tf.nest.flatten(all_batches(batches))]

    batches, same = some_batches(seed=3), some_batches(seed=3)
    first, second = flat(batches), flat(batches)
    assert first != second
    assert [flat(same), flat(same)] == [first, second]
    assert flat(some_batches(seed=4)) != first


# ------------------------------------------------------------------------------ loss and metrics


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_loss_is_that_of_the_real_tokens(bahdanau, batch, label_smoothing):
    loss = TokenCrossentropy(label_smoothing)
    inputs, labels, weights = batch
    logits = bahdanau.core(inputs)
    expected = token_losses(labels, logits, label_smoothing)[weights > 0].mean()
    assert float(loss(labels, logits, weights)) == pytest.approx(expected, abs=1e-5)
    inputs, labels, weights = pad_more(batch)
    padded = loss(labels, bahdanau.core(inputs), weights)
    assert float(padded) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_labels_may_be_probabilities(label_smoothing):
    draws = np.random.default_rng(0)
    logits = draws.normal(size=(2, 3, 5)).astype("float32")
    labels = draws.dirichlet(np.ones(5), size=(2, 3)).astype("float32")
    weights = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    # The expected loss of a token drawn from the labels.
    losses = [token_losses(np.full((2, 3), token), logits, label_smoothing) for token in range(5)]
    expected = (labels * np.stack(losses, axis=-1)).sum(-1)[weights > 0].mean()
    found = TokenCrossentropy(label_smoothing)(labels, logits, weights)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_label_smoothing_must_be_a_share():
    with pytest.raises(ValueError, match="label_smoothing=1"):
        TokenCrossentropy(1.0)


def test_loss_survives_its_config():
    loss = keras.losses.deserialize(keras.losses.serialize(TokenCrossentropy(0.2)))
    assert loss.label_smoothing == 0.2


def test_labels_are_not_rounded_in_half_precision():
    try:
        keras.config.set_floatx("bfloat16")
        loss = TokenCrossentropy()
    finally:
        keras.config.set_floatx("float32")
    labels, logits = np.array([[1001, 1003]]), 9 * np.eye(1100)[[[1001, 1003]]]
    expected = token_losses(labels, logits).mean()
    assert float(loss(labels, logits)) == pytest.approx(expected, rel=1e-5)


def test_evaluate_equals_numpy(bahdanau, batch, sources, targets):
    wrong = targets[1:] + targets[:1]  # so that there is something to measure
    result = bahdanau.evaluate(sources, wrong, batch_size=8, return_dict=True, verbose=0)
    ((inputs, labels, weights),) = all_batches(bahdanau.batches(sources, wrong, batch_size=8))
    logits, real = bahdanau.core(inputs).numpy(), weights > 0
    cross_entropy = token_losses(labels, logits)[real].mean()
    assert set(result) == {"loss", "perplexity", "token_accuracy"}
    assert result["loss"] == pytest.approx(cross_entropy, rel=1e-5)
    assert result["perplexity"] == pytest.approx(np.exp(cross_entropy), rel=1e-4)
    accuracy = (logits.argmax(-1) == labels)[real].mean()
    assert result["token_accuracy"] == pytest.approx(accuracy, rel=1e-5)


@pytest.mark.full
def test_metrics_do_not_depend_on_the_batches(bahdanau, sources, targets):
    options = {"return_dict": True, "verbose": 0}
    few = bahdanau.evaluate(sources, targets, batch_size=3, **options)
    all_at_once = bahdanau.evaluate(sources, targets, batch_size=8, **options)
    for metric in ("perplexity", "token_accuracy"):
        assert few[metric] == pytest.approx(all_at_once[metric], rel=1e-5)


def test_evaluate_takes_batches_as_they_are(bahdanau, batch):
    prepared = tf.data.Dataset.from_tensors(batch)
    padded = tf.data.Dataset.from_tensors(pad_more(batch))
    expected = bahdanau.evaluate(prepared, return_dict=True, verbose=0)
    found = bahdanau.evaluate(padded, return_dict=True, verbose=0)
    assert found == pytest.approx(expected, rel=1e-5)


# ------------------------------------------------------------------------------------------- fit


@pytest.mark.full  # `generator_test` measures texts, `classification_test` lists
def test_validation_data_is_measured(fresh_model, sources, targets):
    model, texts = fresh_model("transformer_nmt"), (sources[:2], targets[:2])
    model.compile("adam", run_eagerly=True)
    held_out = sources[5:], targets[5:]
    history = model.fit(
        *texts, validation_data=held_out, validation_batch_size=1, verbose=0
    ).history
    measured = model.evaluate(*held_out, batch_size=1, return_dict=True, verbose=0)
    assert history["val_loss"] == [pytest.approx(measured["loss"], rel=1e-4)]
    with pytest.raises(ValueError, match="batch_size=0"):
        model.fit(*texts, validation_data=held_out, validation_batch_size=0)


@pytest.mark.filterwarnings("error:Your input ran out of data")
def test_lists_last_for_as_many_steps_as_wanted(fresh_model, sources, targets):
    model, seen = fresh_model("transformer_nmt"), []
    model.compile("adam", run_eagerly=True)
    step = model.train_step

    def watched(data):
        seen.append(data[0]["source_ids"].numpy().tolist())
        return step(data)

    model.train_step = watched
    options = {"batch_size": 1, "shuffle": False, "steps_per_epoch": 1, "epochs": 3, "verbose": 0}
    history = model.fit(sources[:2], targets[:2], **options).history
    assert seen[2] == seen[0] != seen[1]
    assert min(history["loss"]) > 0.0


@pytest.mark.few(1)
@pytest.mark.parametrize("knows_number_of_batches", [False, True])
def test_an_interrupted_training_goes_on_in_the_same_order(knows_number_of_batches, tmp_path):
    labels, seen = list("abcdefgh"), []
    sizes = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16}
    parts = {"tokenizer": zoo.ByteBPETokenizer([], prefix_space=False)}
    if knows_number_of_batches:
        parts["context_length"], data = 4, ("".join(labels),)
        model = zoo.load("transformer_lm", weights=None, **parts, **sizes)
    else:
        data = labels, labels
        model = zoo.load("text_encoder", weights=None, labels=labels, **parts, **sizes)
    number = model.batches(*data, batch_size=8, shuffle=True).cardinality()
    assert (number >= 0) == knows_number_of_batches

    def loss(y_true, y_pred):
        seen.append(keras.ops.convert_to_numpy(y_true).ravel().astype(int).tolist())
        return 0.0 * keras.ops.sum(y_pred)

    class Interrupted(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                raise InterruptedError

    def train(*callbacks, **options):
        model.compile("sgd", loss=loss, weighted_metrics=[], run_eagerly=True)
        seen.clear()
        options = {"epochs": 3, "callbacks": callbacks, "verbose": 0, **options}
        model.fit(*data, batch_size=8, **options)
        return seen[:]

    whole = train()
    assert len({*map(tuple, whole)}) == 3
    assert train(initial_epoch=2) == whole[2:]
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(InterruptedError):
        train(backup, Interrupted())
    assert train(keras.callbacks.BackupAndRestore(tmp_path / "backup")) == whole[2:]


class Numbers(Task):
    """Learns from a list of numbers, as a data set of unknown length."""

    def __init__(self):
        core = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        super().__init__(core)
        core.set_weights([np.array([[1.0]])])

    def batches(self, x, y=None, **options):
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(1).filter(lambda *batch: True)


@pytest.mark.parametrize("accumulated", [None, 2])
def test_there_are_as_many_steps_as_batches(accumulated):
    model = Numbers()
    options = {"weight_decay": 0.5, "gradient_accumulation_steps": accumulated}
    optimizer = keras.optimizers.SGD(1.0, **options)
    model.compile(optimizer, loss=lambda _, y_pred: y_pred, weighted_metrics=[])
    model.fit([[1.0]] * 3, [0.0] * 3, epochs=2, verbose=0)
    expected = 1.0
    for _ in range(6 // (accumulated or 1)):
        expected = 0.5 * expected - 1.0
    assert float(model.core.get_weights()[0][0, 0]) == pytest.approx(expected, rel=1e-5)


def test_no_steps_stand_for_all_batches():
    model, seen = Numbers(), []
    model.compile("sgd", loss="mse", weighted_metrics=[], run_eagerly=True)

    def stop_late(batch, logs):
        seen.append(batch)
        model.stop_training = len(seen) > 5

    stop = keras.callbacks.LambdaCallback(on_train_batch_end=stop_late)
    model.fit([[1.0]] * 3, [0.0] * 3, steps_per_epoch=0, callbacks=[stop], verbose=0)
    assert seen == [0, 1, 2]


def test_an_empty_data_set_is_warned_of():
    model = Numbers()
    model.compile("sgd", loss="mse", weighted_metrics=[])
    empty = model.batches([[1.0]], [0.0]).map(lambda x, y: (x, y, tf.ones_like(y))).take(0)
    with pytest.warns(UserWarning, match="The data set is empty"):
        model.fit(empty, verbose=0)
    with pytest.warns(UserWarning, match="The data set is empty"):
        model.evaluate(empty, verbose=0)


def test_callbacks_may_be_a_list_of_keras():
    model, seen = Numbers(), []
    model.compile("sgd", loss="mse", weighted_metrics=[], run_eagerly=True)
    watch = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    callbacks = keras.callbacks.CallbackList([watch], add_history=True, model=model)
    history = model.fit([[1.0]], [0.0], epochs=2, callbacks=callbacks)
    assert seen == history.epoch == [0, 1]


def test_weights_of_16_bits_are_warned_of_before_training(fresh_model, recwarn):
    with pytest.warns(UserWarning, match='load the model with dtype="mixed_bfloat16"'):
        fresh_model(dtype="bfloat16").compile("adam")
    fresh_model(dtype="float64").compile("adam")
    assert not recwarn.list


@pytest.mark.full
def test_a_model_without_metrics_comes_back_without_them(fresh_model, sources, targets, tmp_path):
    model = fresh_model("transformer_nmt")
    model.compile("adam")  # with the usual ones, which do not stay
    model.compile("adam", weighted_metrics=[], run_eagerly=True)
    measured = model.evaluate(sources[:2], targets[:2], return_dict=True, verbose=0)
    assert set(measured) == {"loss"}
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    measured = loaded.evaluate(sources[:2], targets[:2], return_dict=True, verbose=0)
    assert set(measured) == {"loss"}


@pytest.mark.full
@pytest.mark.filterwarnings("error:Your input ran out of data")
def test_a_step_in_mixed_precision_is_traced_once(fresh_model, batch, monkeypatch):
    model = fresh_model(dtype="mixed_bfloat16", dropout=0.1)
    model.compile("adam")
    traced, step = [], model.train_step
    monkeypatch.setattr(model, "train_step", lambda data: traced.append(0) or step(data))
    before = [weight.numpy() for weight in model.trainable_weights]
    history = model.fit(tf.data.Dataset.from_tensors(batch).repeat(2), verbose=0).history
    assert len(traced) == 1
    assert np.isfinite(history["loss"]).all()
    for old, weight in zip(before, model.trainable_weights, strict=True):
        assert weight.dtype == "float32"
        assert np.isfinite(weight.numpy()).all()
        assert not np.array_equal(weight.numpy(), old), weight.path


@pytest.mark.full
def test_float16_is_trained_with_a_scaled_loss(fresh_model, batch):
    model = fresh_model(dtype="mixed_float16")
    model.compile("adam")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    before = [weight.numpy() for weight in model.trainable_weights]
    history = model.fit(tf.data.Dataset.from_tensors(batch).repeat(20), verbose=0).history
    assert np.isfinite(history["loss"]).all()
    for old, weight in zip(before, model.trainable_weights, strict=True):
        assert not np.array_equal(weight.numpy(), old), weight.path


TWO_REPLICAS = """
import json, sys
import keras
import tensorflow as tf
import zoo

(device,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
cpus = [each.name for each in tf.config.list_logical_devices("CPU")]
options, is_measured = json.loads(sys.argv[1])
texts = ["as many tokens for each replica"] * 8
for strategy in (tf.distribute.MirroredStrategy(cpus), tf.distribute.get_strategy()):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = zoo.load(weights=None, tokenizer=zoo.ByteBPETokenizer([]), **options)
        model.compile(keras.optimizers.SGD(0.1))
    given = {"validation_data": (texts, texts)} if is_measured else {}
    history = model.fit(texts, texts, batch_size=4, **given, epochs=2, verbose=0).history
    numbers = [*history["loss"], *history.get("val_loss", [])]
    if is_measured:  # also on a batch that cannot be split evenly
        numbers += model.evaluate(texts[:3], texts[:3], batch_size=3, verbose=0)[:1]
    print(strategy.num_replicas_in_sync, *numbers)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "is_measured"),
    [
        ("luong_nmt", False),
        ("luong_nmt", True),
        ("transformer_nmt", True),
    ],
)
def test_two_replicas_learn_as_one(name, is_measured, run_python):
    options = {"name": name, **TINY[name], "dropout": 0.0}
    output = run_python("-c", TWO_REPLICAS, json.dumps([options, is_measured]))
    assert output.returncode == 0, output.stderr.decode()
    (two, *expected), (one, *found) = np.loadtxt(output.stdout.decode().splitlines())
    assert (two, one) == (2, 1)
    assert expected[-1] < expected[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


WRONG_DATA = {
    "batched": lambda pairs: (pairs.batch(2),),
    "sources alone": lambda pairs: (pairs.map(lambda source, target: source),),
    "numbers": lambda pairs: ([1, 2], ["ein", "zwei"]),
    "a tensor": lambda pairs: (tf.constant(["a man"]),),
    "a list alone": lambda pairs: (["a man"],),
    "nothing": lambda pairs: (None,),
    "lists of other lengths": lambda pairs: (["a man", "a dog"], ["ein mann"]),
    "empty lists": lambda pairs: ([], []),
    "two strs": lambda pairs: ("ab", "cd"),
}
FROM_PATHS = "must be given themselves. Received: the path .*training_test.py"


@pytest.mark.parametrize("wrong", WRONG_DATA.values(), ids=WRONG_DATA)
def test_wrong_data_is_explained(bahdanau, dataset, wrong):
    with pytest.raises(ValueError, match="learns from pairs of texts"):
        bahdanau.fit(*wrong(dataset))


def test_how_to_split_pairs_and_batches_is_told(bahdanau, dataset):
    with pytest.raises(ValueError, match=r"Received: a list. .*targets = zip\(\*pairs\)"):
        bahdanau.fit([("a man", "ein mann")])
    with pytest.raises(ValueError, match=r"a data set of .*dataset\.unbatch\(\)"):
        bahdanau.fit(dataset.batch(2))


@pytest.mark.parametrize("paths", [__file__, [__file__] * 2, [pathlib.Path(__file__)]])
def test_files_are_read_before_pairs_are_learned_from(bahdanau, paths):
    with pytest.raises(ValueError, match=FROM_PATHS):
        bahdanau.fit(paths, paths)


@pytest.mark.parametrize("wrong", [(["a"], ["b"], ["c"]), [("a", "b")], {"a": "b"}])
def test_wrong_validation_data_is_explained(bahdanau, dataset, wrong):
    with pytest.raises(ValueError, match=r"`validation_data` must be .* \(x, y\) of two lists"):
        bahdanau.fit(dataset, validation_data=wrong)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            ["a", "b"],
            [None, "a"],
            "Of the targets: .* Received: None of type NoneType at position 0",
        ),
        ([float("nan"), "a"], ["a", "b"], "Of the sources: .* nan of type float at position 0"),
        ([], [], "Received: two empty lists"),
    ],
)
def test_what_is_no_pair_is_told_with_its_position(bahdanau, x, y, message):
    with pytest.raises(ValueError, match=message):
        bahdanau.fit(x, y)


def test_texts_beyond_the_positions_are_refused():
    sizes = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16, "max_length": 8}
    model = zoo.load("bart", weights=None, tokenizer=zoo.ByteBPETokenizer([]), **sizes)
    for pair in (["a " * 20], ["b"]), (["a"], ["b " * 20]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="than the 8 positions. Shorten"):
            next(iter(model.batches(*pair)))


@pytest.mark.parametrize("dropout", [2, -0.1, "0.1"])
def test_subword_dropout_is_a_probability(bahdanau, dataset, dropout):
    with pytest.raises(ValueError, match="`subword_dropout` must be a number from 0 to 1"):
        bahdanau.fit(dataset, subword_dropout=dropout)


def test_a_data_set_has_no_targets_beside_it(bahdanau, dataset, sources, targets):
    with pytest.raises(ValueError, match="`y` is for lists.* both in one data set"):
        bahdanau.fit(dataset, targets)
    with pytest.raises(ValueError, match="`y` is for lists"):
        bahdanau.fit(sources, targets, validation_data=(dataset, targets))


def test_entries_of_dictionaries_are_told_to_be_made_pairs(bahdanau, sources, targets):
    columns = {"en": sources, "de": targets}
    with pytest.raises(ValueError, match="a dict of 'en', 'de'. Pass lists of its entries as x"):
        bahdanau.batches(columns)
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    with pytest.raises(ValueError, match=r"Make pairs of it: dataset.map\(lambda each"):
        bahdanau.batches(dataset)


def test_batched_pairs_are_told_the_way_out(bahdanau, dataset):
    with pytest.raises(ValueError, match=r"dataset\.unbatch\(\)"):
        bahdanau.fit(dataset.batch(2))
