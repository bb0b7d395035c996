"""Compares language models with those of transformers."""

import keras
import numpy as np
import pytest

import zoo
from tests.checkpoints import tiny

LENGTH = 4
PROMPTS = ["The cats", "Trains and boats and planes are passing", "a", "for you: "]


def check_numbers(model, theirs, pieces):
    """Compares the tokens of texts, and logits and attention of the last and of many tokens."""
    rows = [model._prompts.of_text(text) for text in tiny.TEXTS]
    assert [row.tolist() for row in rows] == [pieces(text)["input_ids"] for text in tiny.TEXTS]
    rows.append(np.random.default_rng(0).integers(3, len(pieces), 20))
    for row in rows[-2:]:
        with tiny.torch.no_grad():
            expected = theirs(tiny.torch.tensor(row[None]), output_attentions=True)
        found, weights = model.core(row[None], return_attention_scores=True)
        np.testing.assert_allclose(found, expected.logits, atol=1e-4)
        for ours, others in zip(weights, expected.attentions, strict=True):
            np.testing.assert_allclose(ours, others, atol=1e-4)


def check_texts(model, theirs, pieces, with_beams=False):
    """Compares generated texts, streams and the scores of texts."""
    greedy = [_generated(theirs, pieces, prompt, do_sample=False) for prompt in PROMPTS]

    def texts(rows):
        return [text.decode() for text in model.texts_of(keras.ops.array(rows)).numpy()]

    assert model.default_sampler == zoo.decoding.get("greedy")
    assert model.generate(PROMPTS, max_length=LENGTH) == [texts([row])[0] for row in greedy]
    if with_beams:  # `marian_test` always uses beam search
        told = {"num_beams": 4, "early_stopping": "never", "length_penalty": 1.0}
        beams = [_generated(theirs, pieces, prompt, **told) for prompt in PROMPTS[:2]]
        found = model.generate(PROMPTS[:2], max_length=LENGTH, sampler="beam", num_beams=4)
        assert found == [texts([row])[0] for row in beams]
    if model.tokenizer.opening_ids == ():  # then the first token has no score
        ids = pieces(tiny.TEXTS[0], return_tensors="pt")["input_ids"]
        end = tiny.torch.tensor([[pieces.eos_token_id]])
        ids = tiny.torch.cat([ids, end], dim=1)
        expected = float(np.exp(theirs(ids, labels=ids).loss.detach()))
        scores = model.score(tiny.TEXTS[0])
        assert scores.perplexity[0] == pytest.approx(expected, rel=1e-3)
        assert len(scores.tokens[0]) == len(scores.log_probs[0]) == ids.shape[1] - 1
    streamed = "".join(model.stream(PROMPTS[0], max_length=LENGTH))
    assert streamed == texts(greedy[:1])[0]


def _generated(theirs, pieces, prompt, **options):
    """Returns what transformers writes after a prompt, without special tokens."""
    inputs = pieces(prompt, return_tensors="pt")
    special = [x for x in (pieces.pad_token_id, pieces.bos_token_id) if x is not None]
    special = [x for x in special if x != pieces.eos_token_id]
    if special:
        options["suppress_tokens"] = special
    written = theirs.generate(**inputs, max_new_tokens=LENGTH, **options)[0]
    return written[inputs["input_ids"].shape[1] :].tolist()
