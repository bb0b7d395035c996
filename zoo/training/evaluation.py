"""Evaluation of models as in papers, each number with its protocol."""

import math

import numpy as np
import tensorflow as tf

from zoo.data.pairs import all_pairs, sources_and_references
from zoo.data.windows import random_windows
from zoo.metrics.bleu import moses_lowercase_bleu, sacrebleu_score
from zoo.metrics.captions import caption_scores
from zoo.metrics.retrieval import retrieval_scores
from zoo.metrics.word_errors import word_error_rate

FORCED = "teacher forcing, per token of the model's vocabulary, end token included"
RANDOM_BATCHES, RANDOM_BATCH_SIZE = 200, 64  # nanoGPT's estimate of a loss


def evaluate_translator(model, examples, target_language, sampler=None, batch_size=64):
    """Returns every metric of a translator on a data set.

    Args:
        model: A `Translator`.
        examples: Data set of (source, target) strings; or of sources with a vector of targets, all
            right translations of it. Then each is an example of its own for the perplexity, and a
            reference for BLEU.
        target_language: Language code for the Moses tokenizer, such as `"de"`.
        sampler: Sampler of the translations; by default the model's own.
        batch_size: Number of texts to process at a time.

    Returns:
        Dictionary of `token_accuracy` and `perplexity` (teacher forcing, per token of the model's
        vocabulary, end token included) and the two `BleuScore` `bleu_moses_lowercase` and
        `bleu_sacrebleu`.
    """
    measured = _compiled_anew(model)
    scores = measured.evaluate(
        all_pairs(examples), batch_size=batch_size, return_dict=True, verbose=0
    )
    sources, references = sources_and_references(examples)
    hypotheses = model.translate(sources, sampler=sampler, batch_size=batch_size)
    return {
        "token_accuracy": scores["token_accuracy"],
        "perplexity": scores["perplexity"],
        "bleu_moses_lowercase": moses_lowercase_bleu(hypotheses, references, target_language),
        "bleu_sacrebleu": sacrebleu_score(hypotheses, references),
    }


def best_sampler(model, examples, samplers, batch_size=64):
    """Returns the sampler whose translations have the best sacreBLEU on a data set.

    Args:
        model, examples, batch_size: As for `evaluate_translator`.
        samplers: The samplers to try; the first one wins a tie.
    """
    sources, references = sources_and_references(examples)

    def score(sampler):
        hypotheses = model.translate(sources, sampler=sampler, batch_size=batch_size)
        return sacrebleu_score(hypotheses, references).score

    return max(samplers, key=score)


def translator_quality(scores, split, sampler):
    """Returns the entries of a model's card for the results of `evaluate_translator`."""
    entries = [_entry("perplexity", split, scores["perplexity"], FORCED)]
    names = {
        "bleu_moses_lowercase": "BLEU (lower-cased, Moses tokens)",
        "bleu_sacrebleu": "sacreBLEU (cased, detokenized)",
    }
    for key, metric in names.items():
        entries.append(_entry(metric, split, scores[key].score, f"{sampler}; {scores[key]}"))
    return entries


def evaluate_language_model(model, text, batch_size=32):
    """Returns the metrics of a language model on a text.

    Args:
        model: A `TextGenerator`.
        text: A `str`.
        batch_size: Number of windows to process at a time.

    Returns:
        Dictionary of `token_accuracy`, `perplexity` and `loss` with each token once, see
        `TextGenerator.evaluate`, and `loss_random_windows`: the mean over 200 batches of 64 windows
        at random positions, as in nanoGPT. Losses are in nats per token.
    """
    measured = _compiled_anew(model)
    scores = measured.evaluate(text, batch_size=batch_size, return_dict=True, verbose=0)
    scores["loss"] = math.log(scores["perplexity"])  # Keras averages losses over batches
    windows = random_windows(
        measured.tokens(text), model.core.context_length, RANDOM_BATCH_SIZE, seed=1
    )
    windows = windows.repeat().take(RANDOM_BATCHES)
    random = measured.evaluate(windows, return_dict=True, verbose=0)
    return {**scores, "loss_random_windows": math.log(random["perplexity"])}


def language_model_quality(scores, split, context_length):
    """Returns the entries of a model's card for the results of `evaluate_language_model`."""
    once = (
        f"nats, each token once, in windows of {context_length} that overlap by half: all but the "
        f"first tokens are predicted from at least {context_length // 2} tokens"
    )
    random = (
        f"nats, mean over {RANDOM_BATCHES} batches of {RANDOM_BATCH_SIZE} windows of "
        f"{context_length} tokens at random positions (nanoGPT's protocol)"
    )
    return [
        _entry("loss per token", split, scores["loss"], once, digits=4),
        _entry("loss per token, random windows", split, scores["loss_random_windows"], random, 4),
    ]


def evaluate_captioner(model, images, batch_size=32):
    """Returns every metric of a captioner on images with captions.

    Args:
        model: A `Captioner`.
        images: Data set of dictionaries with `image`, encoded bytes, and `captions`.
        batch_size: Number of images to process at a time.

    Returns:
        Dictionary of `token_accuracy` and `perplexity` (teacher forcing, per token of the model's
        vocabulary, end token included), and `captions`, the `CaptionScores` of one caption per
        image with the model's own sampler.
    """
    annotations, captions = _annotated(model, images, batch_size)
    features = _features(annotations, captions)
    scores = _compiled_anew(model).evaluate(features, return_dict=True, verbose=0)
    hypotheses = model.caption_annotations(annotations, batch_size=batch_size)
    references = [[caption.decode() for caption in each] for each in captions]
    return {
        "token_accuracy": scores["token_accuracy"],
        "perplexity": scores["perplexity"],
        "captions": caption_scores(hypotheses, references),
    }


def captioner_quality(scores, split, sampler):
    """Returns the entries of a model's card for the results of `evaluate_captioner`."""
    measured = scores["captions"]
    protocol = f"{sampler}; {measured.signature}"
    bleu = {f"BLEU-{n}": getattr(measured, f"bleu_{n}") for n in (1, 2, 3, 4)}
    others = {"METEOR": measured.meteor, "ROUGE-L": measured.rouge_l, "CIDEr-D": measured.cider}
    measured_others = {metric: value for metric, value in others.items() if value is not None}
    return [
        _entry("perplexity", split, scores["perplexity"], FORCED),
        *(_entry(metric, split, value, protocol) for metric, value in bleu.items()),
        _entry("brevity penalty of BLEU", split, measured.brevity_penalty, protocol, digits=3),
        *(_entry(metric, split, value, protocol) for metric, value in measured_others.items()),
    ]


def evaluate_classifier(model, examples, batch_size=250):
    """Returns the metrics of a classifier on a data set of (input, label).

    Args:
        model: A `Classifier`.
        examples: As for `Classifier.evaluate`.
        batch_size: Number of inputs to process at a time.

    Returns:
        Dictionary of `accuracy`, and `loss`, in nats per input.
    """
    measured = _compiled_anew(model)
    return measured.evaluate(examples, batch_size=batch_size, return_dict=True, verbose=0)


def classifier_quality(scores, split):
    """Returns the entries of a model's card for the results of `evaluate_classifier`."""
    protocol = "share of inputs whose most probable label is correct, each input once"
    return [_entry("accuracy, %", split, 100.0 * scores["accuracy"], protocol)]


def evaluate_recognizer(model, examples):
    """Returns the word error rate of a recognizer.

    Args:
        model: A `Recognizer`.
        examples: Data set of (samples at the rate of the reader, text).

    Returns:
        Dictionary of `word_error_rate`.
    """
    pairs = list(examples.as_numpy_iterator())
    found = model.transcribe([(wave, model.reader.rate) for wave, _ in pairs])
    return {"word_error_rate": word_error_rate(found, [text.decode() for _, text in pairs])}


def recognizer_quality(scores, split):
    """Returns the entries of a model's card for the results of `evaluate_recognizer`."""
    protocol = (
        "substitutions, deletions and insertions, divided by the number of words; best-path "
        "decoding, no language model; recordings of all speakers joined at random, each once, with "
        "silence after each"
    )
    return [_entry("word error rate, %", split, 100.0 * scores["word_error_rate"], protocol)]


def evaluate_masked(model, texts, batch_size=4):
    """Returns the metrics of a `MaskFiller` on a data set of texts.

    Args:
        model: A `MaskFiller`.
        texts: Data set of strings.
        batch_size: Number of texts to process at a time.

    Returns:
        Dictionary of `loss`, `accuracy` and `perplexity` of hidden tokens.
    """
    measured = _compiled_anew(model)
    return measured.evaluate(texts, batch_size=batch_size, return_dict=True, verbose=0)


def masked_quality(scores, split):
    """Returns the entries of a model's card for the results of `evaluate_masked`."""
    protocol = (
        "on the hidden tokens: 15% drawn at random, of which 80% are replaced by masks, 10% by "
        "other tokens, and 10% are unchanged"
    )
    return [
        _entry("perplexity", split, scores["perplexity"], protocol),
        _entry("accuracy, %", split, 100.0 * scores["accuracy"], protocol),
    ]


def matcher_scores(model, features):
    """Returns the `RetrievalScores` of a `Matcher`, of all images and all of their captions.

    Args:
        model: A `Matcher`.
        features: Data set of `annotations`, which its backbone made, and `captions`.
    """
    examples = list(features.as_numpy_iterator())
    images = model.embed_annotations(np.stack([each["annotations"] for each in examples]))
    captions = [[caption.decode() for caption in each["captions"]] for each in examples]
    texts = model.embed(texts=[caption for each in captions for caption in each])
    owners = np.repeat(np.arange(len(captions)), [len(each) for each in captions])
    return retrieval_scores(images @ texts.T, owners)


def evaluate_matcher(model, images, batch_size=32):
    """Returns the `RetrievalScores` of a `Matcher` on images with captions.

    Args:
        model: A `Matcher`.
        images: Data set of dictionaries with `image`, encoded bytes, and `captions`.
        batch_size: Number of images to process at a time.
    """
    annotations, captions = _annotated(model, images, batch_size)
    return matcher_scores(model, _features(annotations, captions))


def matcher_quality(scores, split):
    """Returns the entries of a model's card for the results of `evaluate_matcher`."""
    ways = {
        "image to text": (
            scores.image_to_text,
            "share of images with one of their captions among the top k of all captions",
        ),
        "text to image": (
            scores.text_to_image,
            "share of captions with their image among the top k of all images",
        ),
    }
    return [
        _entry(
            f"R@{k}, {way}, %",
            split,
            recall,
            f"{protocol}; by cosine similarity, each image seen once",
        )
        for way, (recalls, protocol) in ways.items()
        for k, recall in recalls.items()
    ]


def _annotated(model, images, batch_size):
    """Returns the annotations of images, an array, and for each image the list of its captions."""
    captions = [each["captions"] for each in images.as_numpy_iterator()]
    encoded = images.map(lambda example: example["image"]).batch(batch_size)
    annotations = np.concatenate([model.annotate(batch).numpy() for batch in encoded])
    return annotations, captions


def _features(annotations, captions):
    """Returns the data set of results of `_annotated`."""
    captions = tf.ragged.constant(captions, tf.string)
    return tf.data.Dataset.from_tensor_slices({"annotations": annotations, "captions": captions})


def _compiled_anew(model):
    """Returns a task of the same parts, which leaves the model's own compilation unchanged."""
    measured = model.twin()
    measured.compile()
    return measured


def _entry(metric, split, value, protocol, digits=2):
    return {"metric": metric, "split": split, "value": round(value, digits), "protocol": protocol}
