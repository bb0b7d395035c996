"""What a language model refuses: wrong options, texts and data."""

import pathlib

import pytest
import tensorflow as tf

import zoo


@pytest.fixture(scope="module")
def generator(fresh_model, byte_tokenizer):
    """A language model that has not learned anything."""
    return fresh_model("transformer_lm", tokenizer=byte_tokenizer, opening="\n")


def test_beam_search_must_fit_into_the_context(generator):
    with pytest.raises(ValueError, match="max_length=40 must be at most the context of 32"):
        generator.generate("the quick", 40, "beam")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": 0}, "`max_length` must be an integer from 1 to 2147483647.*max_length=0"),
        ({"seed": 1.5}, "`seed` must be an integer.*seed=1.5"),
        ({"seed": 2**31}, "`seed` must be an integer from -.*seed=2147483648"),
        ({"stop": [""]}, "`stop` must be a str or several, none of them empty"),
        ({"stop": 3}, "`stop` must be"),
        ({"sampler": "gready"}, "Did you mean 'greedy'"),
        ({"num_beams": 3}, "RandomSampler.*has no option .num_beams.*sampler=.beam."),
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"batch_size": 2.5}, "`batch_size` must be at least 1, an integer"),
        (
            {"max_new_tokens": 3},
            "option of a sampler 'max_new_tokens'. Pass max_length=... instead",
        ),
        ({"top_p": 0.9}, "option of a sampler 'top_p'. Pass sampler=\"top_p\" and p=... instead"),
    ],
)
def test_wrong_arguments_are_named(generator, arguments, message):
    with pytest.raises(ValueError, match=message):
        generator.generate("the", **arguments)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("bad_words", [[5], [6, 999]]),
        ("bad_first_tokens", [5, 259]),
        ("forced_first_token", 259),
        ("end_ids", [-1]),
    ],
)
def test_ids_of_no_token_are_refused(fresh_model, byte_tokenizer, option, value):
    model = fresh_model("transformer_lm", tokenizer=byte_tokenizer)
    for sampler in ("greedy", None):
        with pytest.raises(ValueError, match=rf"`{option}` must be .* ids from 0 to 258. Received"):
            model.sampler(sampler, **{option: value})
    # The default one may have them, as in some checkpoints.
    model.default_sampler = zoo.decoding.get("greedy", **{option: value})
    assert model.sampler("random", temperature=0.5).temperature == 0.5


@pytest.mark.parametrize("num_beams", [1, 4])
def test_beams_cannot_be_streamed(generator, num_beams):
    with pytest.raises(ValueError, match="`sampler` must be .* token after token.*BeamSampler"):
        generator.stream("the", sampler="beam", num_beams=num_beams)


def test_a_data_set_must_be_of_texts(generator):
    texts = tf.data.Dataset.from_tensor_slices(["the cat", "sat"])
    for wrong in (texts.batch(2), texts.map(lambda text: (text, text)), texts.enumerate()):
        with pytest.raises(ValueError, match=r"of scalar strings. .*dataset\.unbatch\(\)"):
            generator.evaluate(wrong)


def test_a_batch_of_scores_is_not_empty(generator):
    with pytest.raises(ValueError, match="`batch_size` must be at least 1"):
        generator.score("the", batch_size=0)


def test_a_tokenizer_that_adds_spaces_is_refused(generator):
    with pytest.raises(ValueError, match="prefix_space=False"):
        zoo.TextGenerator(generator.core, zoo.ByteBPETokenizer([]))


@pytest.mark.parametrize("opening", ["", 3])
def test_an_opening_is_a_text(generator, opening):
    with pytest.raises(ValueError, match="`opening` must be None or a str that is not empty"):
        zoo.TextGenerator(generator.core, generator.tokenizer, opening=opening)


def test_attention_of_a_text_beyond_the_context_is_refused(generator):
    with pytest.raises(ValueError, match="`text` must be a text of at most 32 tokens"):
        generator.attention("x" * 32)


@pytest.mark.parametrize("texts", [[], ""])
def test_nothing_to_learn_from_is_an_error(byte_tokenizer, generator, texts):
    model = zoo.TextGenerator(generator.core, byte_tokenizer, opening="\n")
    model.compile()
    with pytest.raises(ValueError, match="`x` must be texts of two tokens at least"):
        model.fit(texts)
    with pytest.raises(ValueError, match="`x` must be texts of two tokens at least"):
        model.fit("the quick", validation_data=texts)  # of which a loss of 0 would be the best


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_a_file_is_read_before_it_is_learned_from(generator, method):
    file = pathlib.Path(__file__)
    for paths in (file, str(file), [file], [str(file)] * 2, str(file.parent), "no/novel.txt"):
        with pytest.raises(ValueError, match=r"given themselves. .*Read each file first: path\."):
            getattr(generator, method)(paths)


def test_one_text_is_streamed(generator):
    with pytest.raises(
        ValueError, match=r"`prompt` must be one str. Received: \['To'\] of type li"
    ):
        generator.stream(["To"])


def test_what_is_no_text_is_named(generator):
    for method in (generator.fit, generator.evaluate, generator.score, generator.generate):
        with pytest.raises(ValueError, match="a str or a list of str. Received: 7"):
            method(7)
