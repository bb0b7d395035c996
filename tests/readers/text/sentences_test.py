"""Where texts fall into sentences."""

import time
import timeit

import pytest

from zoo.readers.text.sentences import Part, halve, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["A man rides.", "A dog runs!", "Why?", "Because…", "3 cats sleep."],
        ["Mr. J. Hunt has 2.5 dogs.", "He (Dr. Hunt!) lives in the U.S. Army base, e.g. there."],
        ['He says: "Stop!"', '"No," she says.', "(Nobody hears.)", "It is I.", "He knows."],
        ["1. A man rides.", "2. A dog runs in 1999.", "It is 12."],
        ["A sign says FROG! in red ... or so.", "Ünder it, a dog."],
        ["He ran . . . and ran."],
        ["É bom.", "Я тут.", "¿Qué?", "«Oui.»", "Fin."],
        [""],
        [" \n"],
    ],
)
def test_sentences_are_told_apart(sentences):
    text = " ".join(sentences)
    assert [part.text for part in split_sentences(text)] == sentences


def test_full_width_marks_need_no_space():
    parts = split_sentences("我爱你。「你好！」 是")
    assert parts == [Part("我爱你。"), Part("「你好！」"), Part("是", " ")]


def test_lines_end_sentences_unless_they_go_on():
    text = " A man\nrides\n\ta bike \n\nthe dog\nA cat\n"
    found = split_sentences(text)
    assert [part.text for part in found] == [" A man\nrides\n\ta bike", "the dog", "A cat\n"]
    assert "".join(part.gap + part.text for part in found) == text


@pytest.mark.parametrize("unit", ["!", " ", "\n", ". ", "a", ".)", "x. -", "。", "1. ", "Mr. "])
def test_the_time_is_linear(unit):
    def seconds(length):
        text = unit * (length // len(unit))
        timer = time.thread_time  # which other threads and processes do not slow down
        return min(timeit.repeat(lambda: split_sentences(text), timer=timer, number=1, repeat=3))

    assert seconds(100_000) < 100 * max(seconds(5_000), 2.5e-3)  # quadratic: 400


def test_a_sentence_is_halved_where_it_does_least_harm():
    assert halve(Part("one, two three four five; six seven eight nine", "\n")) == (
        Part("one, two three four five;", "\n"),
        Part("six seven eight nine", " "),
    )
    assert halve(Part("one two  three four")) == (Part("one two"), Part("three four", "  "))
    assert halve(Part("一二三，四五六")) == (Part("一二三，"), Part("四五六"))
    assert halve(Part("abcdef")) == (Part("abc"), Part("def"))
    assert halve(Part("ab")) == (Part("a"), Part("b"))
