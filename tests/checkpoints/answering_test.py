"""Extractive question answering: the same numbers as transformers, and the best of all spans."""

import json
import warnings

import click.testing
import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo.cli import main
from zoo.data.answers import answer_spans, spans_of_examples
from zoo.readers.text.span_reader import SpanReader

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny  # noqa: E402
from tests.checkpoints.signatures import default_signature  # noqa: E402

KIND = "ForQuestionAnswering"
QUESTIONS = ["Who sat on the mat?", "a", "Where to? " * 9, "Who  says that?", ""]
CONTEXTS = [
    tiny.TEXTS[0],
    " ".join(tiny.TEXTS * 3),
    tiny.TEXTS[3],
    "  Naïve\n\ncafé owners  say:\tdon't!\n",
    "the dogs",
]
PAIRS = list(zip(QUESTIONS, CONTEXTS, strict=True))


def windows_of(pieces, question, context, max_length):
    """Returns the windows that transformers' tokenizer makes of a question and a context."""
    room = max_length - pieces.num_special_tokens_to_add(pair=True)
    alone = pieces(question, add_special_tokens=False, return_offsets_mapping=True)
    ends = [end for _, end in alone["offset_mapping"]][: room // 2]
    question, space = question[: max(ends, default=0)], room - len(ends)
    return pieces(
        question,
        context,
        truncation="only_second",
        max_length=max_length,
        stride=min(128, space // 2),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=True,
        return_tensors="pt",
    )


def best_span(pieces, inputs, logits, longest):
    """Returns the best span's score, start and end, by trying every span of every window."""
    names = map(pieces.convert_ids_to_tokens, inputs["input_ids"])
    has_text = [[bool(name.strip("▁ĠĊĉ")) for name in row] for row in names]
    of_context = has_text & np.array(
        [[x == 1 for x in inputs.sequence_ids(row)] for row in range(len(logits))]
    )
    shares = np.where(of_context[..., None], np.exp(logits.astype("float64")), 0.0)
    shares /= shares.sum((0, 1))
    offsets = inputs["offset_mapping"].numpy()
    found = [
        (shares[row, i, 0] * shares[row, j, 1], offsets[row, i, 0], offsets[row, j, 1])
        for row, i in np.argwhere(of_context)
        for j in range(i, min(i + longest, logits.shape[1]))
        if of_context[row, j]
    ]
    return max(found)


@pytest.mark.full  # `encoders_test` compares what differs between families
@pytest.mark.parametrize("family", sorted(set(tiny.FAMILIES) - tiny.WITHOUT_ANSWERS))
def test_answers_of_every_family(tmp_path, family):
    theirs, pieces = tiny.save(tmp_path, family, KIND, num_hidden_layers=1)
    model = zoo.load(str(tmp_path), max_answer_tokens=8)
    windows = model.reader.read(tf.constant(PAIRS))
    ids = windows.inputs["token_ids"].numpy()
    logits = model.core(windows.inputs).numpy()
    answers = {name: x.numpy() for name, x in model.respond(tf.constant(PAIRS)).items()}
    for place, (question, context) in enumerate(PAIRS):
        inputs = windows_of(pieces, question, context, model.core.config.max_length)
        mask = inputs["attention_mask"].numpy() > 0
        rows = np.flatnonzero(windows.owners.numpy() == place)
        width = mask.shape[1]
        assert ids[rows, :width][mask].tolist() == inputs["input_ids"].numpy()[mask].tolist()
        named = {name: inputs[name] for name in pieces.model_input_names}
        with torch.no_grad():
            found = theirs(**named)
        expected = np.stack([found.start_logits, found.end_logits], axis=-1)
        np.testing.assert_allclose(logits[rows, :width][mask], expected[mask], atol=1e-4)
        score, start, end = best_span(pieces, inputs, expected, 8)
        assert answers["score"][place] == pytest.approx(score, rel=1e-3)
        text = answers["answer"][place].decode()
        assert text == context[start:end].lstrip()  # some tokenizers count the space before
        assert context[answers["start"][place] : answers["end"][place]] == text
    assert sum(windows.owners.numpy() == 1) > 2


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    theirs, _ = tiny.save(folder, "Bert", KIND, num_hidden_layers=1)
    return zoo.load(str(folder), dropout=0.0, attention_dropout=0.0), theirs


def test_places_of_answers(bert):
    model, _ = bert
    place = CONTEXTS[1].rfind("Rome")
    answers = ["the mat", [("Rome", place), "Paris"], [], "café ", "dogs"]
    spans = np.array([span for _, span in answer_spans(PAIRS, answers)])
    assert spans[1].tolist() == [place, place + 4]
    texts = [context[a:b] for context, (a, b) in zip(CONTEXTS, spans, strict=True)]
    assert texts == ["the mat", "Rome", "", "café", "dogs"]
    windows = model.reader.read(tf.constant(PAIRS))
    places = model.reader.places(windows, *tf.constant(spans.T, tf.int32))
    held = [0] * 5
    rows = zip(windows.owners.numpy(), places.numpy(), windows.starts, windows.ends, strict=True)
    for owner, (first, last), starts, ends in rows:
        assert CONTEXTS[owner][starts[first] : ends[last]] == texts[owner] * bool(first)
        held[owner] += bool(first)
    assert held[1] >= 1  # windows overlap
    assert [held[place] for place in (0, 2, 3, 4)] == [1, 0, 1, 1]


@pytest.mark.usefixtures("eagerly")
def test_a_question_without_an_answer(bert):
    model, _ = bert
    tasks = [
        zoo.Answerer(model.core, model.tokenizer, max_answer_tokens=1, may_be_empty=each)
        for each in (True, False)
    ]
    windows = model.reader.read(tf.constant(PAIRS))
    seen, kernel = set(), model.core.output_layer.kernel
    before = kernel.numpy()
    states = model.core.encode(windows.inputs)[0][-1].numpy()
    towards_start = states[0] - states[windows.of_context[-1]].mean(0)
    for sign in (1.0, -1.0):
        kernel.assign(sign * towards_start[:, None] * np.ones((1, 2)))
        found, forced = (each.respond(tf.constant(PAIRS)) for each in tasks)
        logits = model.core(windows.inputs).numpy().astype("float64")
        for place in range(len(PAIRS)):
            rows = windows.owners.numpy() == place
            of_start = logits[rows, 0]
            of_start = of_start[of_start.sum(-1).argmin()]
            of_context = np.exp(logits[rows][windows.of_context.numpy()[rows]]).sum(0)
            best = np.log(forced["score"][place]) + np.log(of_context).sum()
            is_empty = of_start.sum() > best
            expected = b"" if is_empty else forced["answer"][place].numpy()
            assert found["answer"][place].numpy() == expected
            total = np.log(of_context + np.exp(of_start)).sum()
            expected = np.exp(max(best, of_start.sum()) - total)
            np.testing.assert_allclose(found["score"][place], expected, rtol=1e-3)
            seen.add(bool(is_empty))
    kernel.assign(before)
    assert seen == {True, False}


def test_saved_and_exported(request, bert, tmp_path):
    model, _ = bert
    expected = model.respond(tf.constant(PAIRS))
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset").respond(tf.constant(PAIRS))
    served = default_signature(request, model, tmp_path / "exported")
    found = served(question=tf.constant(QUESTIONS), context=tf.constant(CONTEXTS))
    assert found.keys() == expected.keys() == {"answer", "score", "start", "end"}
    for name, value in expected.items():
        np.testing.assert_array_equal(again[name], value)
        if name != "score":
            np.testing.assert_array_equal(found[name], value)
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-4)


def test_a_new_head(tmp_path):
    theirs, _ = tiny.save(tmp_path, "Bert", "Model", num_hidden_layers=1)
    model = zoo.load(str(tmp_path), problem_type="question_answering")
    assert isinstance(model, zoo.Answerer)
    table = theirs.embeddings.word_embeddings.weight.detach()
    np.testing.assert_array_equal(model.core.embedding.tokens, table)
    with pytest.raises(ValueError, match="Answers have no labels"):
        zoo.load(str(tmp_path), problem_type="question_answering", labels=["a", "b"])


def test_mistakes(bert):
    model, _ = bert
    with pytest.raises(ValueError, match="one for each question. Received: 2 questions and 1 cont"):
        model.answer(["a", "b"], ["c"])
    with pytest.raises(ValueError, match=r"part of its context.*\('mat', 3\)"):
        model.batches([("who?", "the mat")], [("mat", 3)])
    for wrong in (None, ("mat",), ("mat", "the"), [3]):
        with pytest.raises(ValueError, match="must be a `str`, a tuple .answer, start. of"):
            model.batches([("who?", "the mat")], [wrong])
    with pytest.raises(ValueError, match=r"Take list\(zip\(answer\['text'\], answer\['answer_"):
        model.batches([("who?", "the mat")], [{"text": ["mat"], "answer_start": [4]}])
    with pytest.raises(ValueError, match="Received: 1 questions and 0 answers"):
        model.batches([("who?", "the mat")], [])
    with pytest.raises(ValueError, match=r"\(\(question, context\), answer\), scalar"):
        model.batches(tf.data.Dataset.from_tensor_slices(["a"]))
    with pytest.raises(ValueError, match="`max_answer_tokens` must be an integer from 1"):
        zoo.Answerer(model.core, model.tokenizer, max_answer_tokens=0)
    wrong = tf.data.Dataset.from_tensor_slices(((["who?"], ["the mat"]), ["dogs"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not hold the answer"):
        list(spans_of_examples(wrong))


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_empty_answers_that_are_never_given_are_told(bert, monkeypatch):
    model, _ = bert
    monkeypatch.setattr("tensorflow.data.Dataset.map", lambda data, *_, **__: data)  # none is read
    pairs, answers = [("who?", "the mat"), ("where?", "the mat")], iter(["mat", []])
    with pytest.warns(
        UserWarning, match="1 of 2 answers are empty.*load it with may_be_empty=True"
    ):
        model.batches(pairs, answers)
    may = zoo.Answerer(model.core, model.tokenizer, may_be_empty=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        may._warn_of_empty(["mat", " "])
        model._warn_of_empty([["the", ""], ("mat", 4)])


def test_an_empty_context_holds_the_empty_answer():
    examples = tf.data.Dataset.from_tensor_slices(((["who?"] * 2, ["", " "]), ["", ""]))
    assert [span.numpy().tolist() for _, span in spans_of_examples(examples)] == [[0, 0]] * 2


ROME = ["The cats sat in Rome.", "They mean a trip to Paris.", "Boats to Paris, a trip."]


@pytest.mark.usefixtures("eagerly")
def test_loss_and_scores(request, bert):
    """The loss of transformers and the scores of SQuAD.

    With `--full`, it learns the answers, and is measured in steps, too.
    """
    model, theirs = bert
    pairs, answers = [("where?", each) for each in ROME], ["Rome", "Paris", "Paris"]
    sides = tuple(map(list, zip(*pairs, strict=True)))
    examples = tf.data.Dataset.from_tensor_slices((sides, answers))
    batches = model.batches(examples, batch_size=3).cache()
    model.compile(keras.optimizers.Adam(0.01))
    before, *_ = model.evaluate(batches, verbose=0)
    ((inputs, places, _),) = list(batches)
    ids = torch.tensor(inputs["token_ids"].numpy())
    assert torch.all(ids != model.tokenizer.pad_id)
    with torch.no_grad():
        first, last = torch.tensor(places.numpy().T, dtype=torch.int64)
        segments = torch.tensor(inputs["segment_ids"].numpy())
        asked = {"token_type_ids": segments, "start_positions": first, "end_positions": last}
        assert before == pytest.approx(theirs(ids, **asked).loss.item(), abs=1e-4)
    if request.config.getoption("--full"):
        model.fit(batches.repeat(40), verbose=0)
        assert [each.text for each in model.answer(*sides)] == answers
    first, second, third = (each.text for each in model.answer(*sides))
    other = next(word for word in ("Boats", "Paris", "trip") if word not in third)
    loss, accuracy, exact_match, f1 = model.evaluate(
        iter(pairs), [first, ["mean", second], other], verbose=0
    )
    assert loss > 0.0
    assert accuracy < 1.0
    assert exact_match == f1 == pytest.approx(200 / 3)
    if request.config.getoption("--full"):
        *_, exact_match, f1 = model.evaluate(
            pairs, [first, second, other], batch_size=1, steps=2, verbose=0
        )
        assert exact_match == f1 == 100.0
        endless = model.evaluate(examples.repeat(), batch_size=3, steps=1, verbose=0)
        assert endless == model.evaluate(examples, batch_size=3, verbose=0)


@pytest.mark.usefixtures("eagerly")
def test_the_command_line(bert, tmp_path, monkeypatch):
    model, _ = bert
    monkeypatch.setattr(zoo, "load", lambda name: model)
    answer = model.answer("where?", ROME[0])
    assert answer[:1] == model.answer(["where?"] * 2, ROME[0])[1][:1]
    assert answer.text == ROME[0][answer.start : answer.end]
    line = f"{answer.text}\t{answer.score:.4f}"
    assert run("answer", "toy", "where?", ROME[0]).stdout == f"{line}\n"
    source, output = tmp_path / "a.jsonl", tmp_path / "b.tsv"
    source.write_text(json.dumps({"question": "where?", "context": ROME[0], "id": 3}))
    run("answer", "toy", "--input", source, "--output", output)
    row = f"where?\t{ROME[0]}\t3\t{answer.text}\t{answer.score:.6g}\n"
    assert output.read_text() == row
    assert "Give a question and a context" in run("answer", "toy", "why?").stderr
    source = tmp_path / "a.txt"
    source.touch()
    result = run("answer", "toy", "--input", source, "--output", tmp_path / "b.txt")
    assert "for objects with a 'question' and a 'context'" in result.stderr


def run(*arguments):
    return click.testing.CliRunner().invoke(main, list(map(str, arguments)))


def test_questions_may_be_truncated_on_the_left():
    tokenizer = zoo.ByteBPETokenizer([], prefix_space=False)
    tokenizer.truncation_side = "left"
    windows = SpanReader(tokenizer, max_length=11).read(tf.constant([["abcdefgh", "xy"]]))
    question = tokenizer.tokenize(tf.constant(["efgh"])).to_list()[0]
    assert windows.inputs["token_ids"][0, 1:6].numpy().tolist() == [*question, tokenizer.end_id]
