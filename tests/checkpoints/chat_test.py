"""Conversations: the same prompts and answers as transformers."""

import functools
import json

import click.testing
import pytest

import zoo
from zoo.checkpoints.chat import chat_of
from zoo.cli import main
from zoo.readers.text.chat import text_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import tiny  # noqa: E402

ZEPHYR = """{{ bos_token }}{% for message in messages %}
    {% if message['role'] == 'system' and not loop.first %}
        {{ raise_exception('The system comes first.') }}
    {% endif %}
<|{{ message['role'] }}|>
{{ message['content'] | trim }}{{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
OTHER = """{%- set ns = namespace(seen=0) -%}
{%- if tools is not none or documents is not none -%}[TOOLS]{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}{%- continue -%}{%- endif -%}
{%- set ns.seen = ns.seen + 1 -%}
[{{ ns.seen }}] {{ {'role': message.role, 'text': message.content} | tojson }}
{% generation %}{{ strftime_now('%Y') | length }}{% endgeneration %}
{%- endfor -%}"""
zoo_load = zoo.load
SIZES = {"num_hidden_layers": 1, "max_position_embeddings": 256}
TALK = [
    {"role": "system", "content": "You sail <boats>. "},
    {"role": "user", "content": "Trains & boats?"},
    {"role": "assistant", "content": "naïve café"},
    {"role": "user", "content": " a trip to Paris\n"},
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    theirs, pieces = tiny.save(folder, "Llama", "ForCausalLM", **SIZES)
    pieces.chat_template = ZEPHYR
    pieces.save_pretrained(folder)
    return folder, theirs, pieces, zoo.load(folder)


@pytest.mark.parametrize("template", [ZEPHYR, OTHER])
def test_texts_are_those_of_transformers(checkpoint, template):
    _, _, pieces, _ = checkpoint
    chat = {"template": template, "bos_token": "<s>", "eos_token": "</s>"}
    for end in (2, 4):
        expected = pieces.apply_chat_template(
            TALK[:end], chat_template=template, add_generation_prompt=True, tokenize=False
        )
        assert text_of(chat, TALK[:end]) == expected


@pytest.mark.usefixtures("eagerly")
def test_answers_are_those_of_transformers(checkpoint, tmp_path):
    folder, theirs, pieces, model = checkpoint
    talks = [TALK, TALK[1:2]]
    expected = []
    for talk in talks:
        inputs = pieces.apply_chat_template(
            talk, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        ids = inputs["input_ids"]
        assert model.conversation_ids(talk).tolist() == ids[0].tolist()
        written = theirs.generate(ids, max_new_tokens=2, do_sample=False)[:, ids.shape[1] :]
        # Not by `pieces`, which drop what is whole beside a broken character.
        expected.append(model.texts_of(written.numpy()).numpy()[0].decode())
    options = {"max_length": 2, "sampler": "greedy"}
    answers = model.generate(talks, **options)
    assert [each.strip() for each in answers] == [each.strip() for each in expected]
    assert model.generate(TALK, **options) == answers[0]
    assert "".join(model.stream(TALK, **options)) == answers[0]
    assert [each.text for each in model.continuations(talks, **options)] == answers
    model.save_to_preset(tmp_path / "preset")
    assert zoo.load(tmp_path / "preset").settings == model.settings
    again = zoo.load(zoo.save_checkpoint(model, tmp_path / "saved"))
    assert again.settings["chat"] == model.settings["chat"]


@pytest.mark.full
@pytest.mark.usefixtures("eagerly")
def test_the_command(checkpoint, monkeypatch):
    *_, model = checkpoint
    monkeypatch.setattr(zoo, "load", lambda name: model)
    asked = ["chat", "toy", "--system", "Be kind.", "--max-length", "3", "--sampler", "greedy"]
    run = functools.partial(click.testing.CliRunner().invoke, main)
    talk, answers = [{"role": "system", "content": "Be kind."}], []
    for text in ("Hello!", "And boats?"):
        talk.append({"role": "user", "content": text})
        answers.append(model.generate(talk, 3, "greedy"))
        talk.append({"role": "assistant", "content": answers[-1].strip()})
    result = run(asked, input="Hello!\n\n And boats?\n")
    assert (result.exit_code, result.stdout) == (0, "".join(f"{each}\n" for each in answers))
    monkeypatch.setattr(zoo, "load", lambda name: zoo_load("transformer_lm_shakespeare"))
    result = run(["chat", "transformer_lm_shakespeare"])
    assert result.exit_code == 1
    assert "transformer_lm_shakespeare has no chat template" in result.stderr
    assert "Traceback" not in result.output


def test_where_templates_are(checkpoint, tmp_path):
    folder, *_ = checkpoint
    assert chat_of(folder)["template"] == ZEPHYR
    config = {"eos_token": {"content": "</s>"}, "bos_token": None}
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(config))
    assert chat_of(tmp_path) is None
    path.write_text(json.dumps({**config, "chat_template": "a"}))
    assert chat_of(tmp_path) == {"template": "a", "eos_token": "</s>"}
    several = [{"name": "tools", "template": "b"}, {"name": "default", "template": "c"}]
    path.write_text(json.dumps({**config, "chat_template": several}))
    assert chat_of(tmp_path)["template"] == "c"
    many = {str(number): {"content": f"<unused{number}>"} for number in range(40_000)}
    path.write_text(json.dumps({"added_tokens_decoder": many, "chat_template": "e"}))
    assert chat_of(tmp_path)["template"] == "e"  # Gemma 3 has 6,000, with all their options
    (tmp_path / "chat_template.jinja").write_text("d")
    assert chat_of(tmp_path)["template"] == "d"


@pytest.mark.parametrize(
    ("talk", "message"),
    [
        ([{"role": "user"}], "a dictionary of two texts"),
        ([{"role": "user", "content": ["Hello!"]}], "a dictionary of two texts"),
        ([TALK[1], TALK[0]], "refuses the conversation: The system comes first"),
        ([{"role": "user", "content": "boats " * 260}], "at most 255 tokens.*begin a new"),
        ([TALK[1], "Hello!"], "at position 0"),
    ],
)
def test_conversations_that_do_not_fit(checkpoint, talk, message):
    *_, model = checkpoint
    with pytest.raises(ValueError, match=message):
        model.generate(talk)


def test_templates_that_do_not_work(checkpoint):
    for template in ("{% if %}", "{{ messages + 1 }}", "{{ 1 / 0 }}"):
        with pytest.raises(ValueError, match="refuses the conversation"):
            text_of({"template": template}, TALK)
    with pytest.raises(ValueError, match="refuses the conversation.*unsafe"):
        text_of({"template": "{{ messages.__class__.__mro__ }}"}, TALK)


@pytest.mark.usefixtures("eagerly")
def test_a_model_without_a_template():
    model = zoo.load("transformer_lm_shakespeare")
    with pytest.raises(ValueError, match="texts for a model without a chat template"):
        model.generate(TALK)
