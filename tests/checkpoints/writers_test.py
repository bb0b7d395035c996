"""Hugging Face language models: the same numbers and texts as transformers."""

import json

import numpy as np
import pytest
import tensorflow as tf

import zoo
from zoo import decoding
from zoo.checkpoints.loading import read_checkpoint

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.checkpoints import continuations, tiny  # noqa: E402
from tests.checkpoints.continuations import PROMPTS  # noqa: E402


@pytest.mark.few(1)
@pytest.mark.parametrize("family", tiny.WRITERS)
@pytest.mark.usefixtures("eagerly")
def test_numbers_and_texts_are_those_of_transformers(request, tmp_path, family):
    kind = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    theirs, pieces = tiny.save(tmp_path, family, kind)
    model = zoo.load(str(tmp_path))
    continuations.check_numbers(model, theirs, pieces)
    continuations.check_texts(model, theirs, pieces, request.config.getoption("--full"))


@pytest.mark.full
def test_saved_and_exported(tmp_path):
    scaling = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    theirs, pieces = tiny.save(tmp_path / "hf", "Llama", "ForCausalLM", rope_parameters=scaling)
    model = zoo.load(str(tmp_path / "hf"))
    ids = model._prompts.of_text(tiny.TEXTS[3])[None]
    expected = theirs(tiny.torch.tensor(ids)).logits.detach()
    np.testing.assert_allclose(model.core(ids), expected, atol=1e-4)
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    np.testing.assert_array_equal(again.core(ids), model.core(ids))
    served = tf.saved_model.load(model.export(tmp_path / "exported", jit_compile=False)).signatures
    found = served["serving_default"](text=tf.constant(PROMPTS))["text"].numpy()
    assert [text.decode() for text in found] == model.generate(PROMPTS, max_length=32)
    assert again.generate("a", max_length=9) == model.generate("a", max_length=9)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("settings", "sampler"),
    [
        ({}, "GreedySampler()"),
        ({"num_beams": 3, "length_penalty": 0.8}, "BeamSampler(num_beams=3, length_penalty=0.8"),
        (  # as in the models of OPUS-MT
            {"num_beams": 4, "bad_words_ids": [[5]], "renormalize_logits": True},
            "BeamSampler(num_beams=4, length_penalty=1.0, num_return_sequences=1, exact=False, "
            "only_best_end=True, processors=(BadWords(words=((5,),)), Renormalized())",
        ),
        ({"do_sample": True, "temperature": 0.7}, "TopKSampler(temperature=0.7, k=50)"),
        (
            {"do_sample": True, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1},
            "TopPSampler(temperature=1.0, p=0.8, k=20, processors=(RepetitionPenalty(penalty=1.1)",
        ),
        ({"do_sample": True, "top_k": 0, "eos_token_id": [1, 2]}, "RandomSampler(temp"),
    ],
)
def test_settings_of_generation_make_the_sampler(tmp_path, settings, sampler):
    tiny.save(tmp_path, "GPT2", "LMHeadModel", n_layer=1)
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    found = zoo.load(str(tmp_path)).default_sampler
    assert repr(found).startswith(sampler)
    assert found.end_ids == tuple(settings.get("eos_token_id", []))


class Again(decoding.Processor):
    """Writes the last token once more."""

    def __call__(self, scores, progress):
        (last,) = tf.unstack(progress.last(1), axis=1)
        return scores + 99.0 * tf.one_hot(last, tf.shape(scores)[1])


@pytest.mark.full  # `zoo/generator_test` covers it
@pytest.mark.usefixtures("eagerly")
def test_a_token_that_pads_and_ends_counts_in_a_prompt(tmp_path):
    """As in the models of chats whose messages end with the token that pads."""
    _, pieces = tiny.save(tmp_path, "GPT2", "LMHeadModel", n_layer=1)
    model = zoo.load(tmp_path)
    assert model.tokenizer.pad_id == model.tokenizer.end_id
    sampler = decoding.GreedySampler(processors=[Again()])
    prompts = ["a", f"a b{pieces.eos_token}"]
    assert model.generate(prompts, 3, sampler) == ["aaa", ""]


def test_settings_that_change_nothing_are_left_alone(tmp_path):
    """SmolLM2 and older files, such as those of larger GPT-2s, have such settings."""
    of_llama = {"is_llama_config": True, "rope_interleaved": False, "rope_scaling": None}
    of_llama["transformers.js_config"] = {"a": 1}
    of_gpt2 = {"n_special": 0, "predict_special_tokens": True, "is_decoder": False}
    for family, kind, more in (
        ("Llama", "ForCausalLM", of_llama),
        ("GPT2", "LMHeadModel", of_gpt2),
    ):
        tiny.save(tmp_path / family, family, kind)
        path = tmp_path / family / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
        assert read_checkpoint(path.parent)[0].options["num_layers"] == 2


def test_dynamic_scaling_begins_where_positions_end(tmp_path):
    """In transformers, `original_max_position_embeddings` is for other kinds of scaling."""
    scaling = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0}
    scaling["original_max_position_embeddings"] = 16
    settings = {"num_hidden_layers": 1, "rope_parameters": scaling}
    theirs, _ = tiny.save(tmp_path, "Llama", "ForCausalLM", **settings)
    ids = np.arange(3, 43)[None]
    expected = theirs(tiny.torch.tensor(ids)).logits.detach()
    np.testing.assert_allclose(zoo.load(str(tmp_path)).core(ids), expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["linear", "dynamic", "llama3", "yarn"])
def test_scaling_without_a_factor_is_told(tmp_path, kind):
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **tiny.LLAMA}
    config["rope_scaling"] = {"type": kind, "original_max_position_embeddings": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=f"config.json scales .* by '{kind}', .* a 'factor'"):
        read_checkpoint(tmp_path)


def test_settings_of_generation_that_are_not_implemented(tmp_path):
    tiny.save(tmp_path, "GPT2", "LMHeadModel", n_layer=1)
    path = tmp_path / "generation_config.json"
    path.write_text('{"penalty_alpha": 0.6}')
    with pytest.raises(ValueError, match="generation_config.json.*not implemented: penalty_alpha"):
        zoo.load(str(tmp_path))
    path.write_text('{"forced_bos_token_id": 5}')  # which transformers only obeys at position 1
    with pytest.raises(ValueError, match="forced_bos_token_id=5, which is not implemented"):
        zoo.load(str(tmp_path))
