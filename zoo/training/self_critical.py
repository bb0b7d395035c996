"""Self-critical training: a model learns from the scores of its own samples.

Several texts are sampled for each image or sentence, and each is compared with the others.
With `n` texts and their rewards `r`, the loss of a text is

$$ -(r_i - \\frac{1}{n - 1} \\sum_{j ≠ i} r_j) \\, \\log p(text_i) $$

The batches are those of plain training, where the weight of each word is the leading factor divided
by the number of words in the batch; compile the model with a `PolicyGradientLoss`. Do not prefetch
batches: the texts must be sampled with the current weights. They are sampled without dropout; a
model that learns from them with dropout learns from another model's texts, and writes nonsense
after a few epochs. So build it with `dropout=0.0` and load the weights.

Papers: Rennie et al. 2017, Self-critical sequence training (https://arxiv.org/abs/1612.00563); Luo
2020, A better variant of self-critical sequence training (https://arxiv.org/abs/2003.09971), for
the other samples as the baseline.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from zoo.decoding import RandomSampler
from zoo.metrics.bleu import sentence_bleu
from zoo.metrics.caption_rewards import CaptionReward

IDS = tf.TensorSpec([None, None], tf.int32)
WEIGHTS = tf.TensorSpec([None, None], tf.float32)


def self_critical_captions(
    model, features, rewards=None, samples=5, batch_size=16, max_length=24, seed=0
):
    """Returns batches of captions, sampled from a model on demand, with their rewards.

    Args:
        model: A `Captioner` with soft attention; hard attention only samples in training.
        features: Data set of `annotations` and `captions`, as for `Captioner.fit`.
        rewards: Weights of the scores, as `weights` of `CaptionReward`; only CIDEr-D by default.
        samples: Number of captions to sample for each image, at least 2.
        batch_size: Number of images per batch.
        max_length: Maximum number of tokens of a sampled caption.
        seed: Seed of the sampling.

    Returns:
        A data set of `(inputs, labels, weights)` for `fit`.
    """
    _require_others(samples)
    corpus = [
        [caption.decode().split() for caption in example["captions"]]
        for example in features.map(lambda each: {"captions": each["captions"]}).as_numpy_iterator()
    ]
    reward = CaptionReward(corpus, rewards or {"cider": 1.0})
    numbered = tf.data.Dataset.zip(
        tf.data.Dataset.range(len(corpus)), features.map(lambda example: example["annotations"])
    )
    batches = numbered.shuffle(64 * batch_size, seed=seed).batch(batch_size)
    draws = np.random.default_rng(seed)
    sampler = RandomSampler()

    @tf.function(reduce_retracing=True, autograph=False)
    def draw(vectors, seeds):
        annotations = model.core.refine(tf.cast(vectors, tf.float32))
        seen = model.core.start(annotations, max_length)
        context, state = tf.nest.map_structure(lambda x: tf.repeat(x, samples, axis=0), seen)
        limits = tf.fill([tf.shape(seeds)[0]], max_length)
        drawn = model.decode_from(context, state, seeds, limits, tf.constant(max_length), sampler)
        ids = drawn.token_ids[:, 0]
        return annotations, ids, model.texts_of(ids)

    def generate():
        for images, vectors in batches:
            owners = np.repeat(images.numpy(), samples)
            seeds = draws.integers(2**31, size=(len(owners), 2)).astype("int32")
            annotations, ids, texts = draw(vectors, seeds)
            captions = [text.decode().split() for text in texts.numpy()]
            earned = reward(captions, [corpus[owner] for owner in owners])
            inputs, labels, weights = _weighed(model, ids, earned, samples, max_length)
            yield {"annotations": annotations, "target_ids": inputs}, labels, weights

    inputs = {"annotations": tf.TensorSpec([None] * 3, tf.float32), "target_ids": IDS}
    drawn = tf.data.Dataset.from_generator(generate, output_signature=(inputs, IDS, WEIGHTS))
    number = -(-len(corpus) // batch_size)
    return drawn.apply(tf.data.experimental.assert_cardinality(number))


def self_critical_translations(model, pairs, samples=5, batch_size=48, max_length=40, seed=0):
    """Returns batches of translations, sampled from a model on demand, with their rewards.

    The reward of a translation is a tenth of its `sentence_bleu`.

    Args:
        model: A `Translator`.
        pairs: Data set of (source, target) strings.
        samples: Number of translations to sample for each source, at least 2.
        batch_size: Number of sources per batch, all of about the same length.
        max_length: Maximum number of tokens of a sampled translation.
        seed: Seed of the sampling.

    Returns:
        A data set of `(inputs, labels, weights)` for `keras.Model.fit`.
    """
    _require_others(samples)
    batches = pairs.shuffle(64 * batch_size, seed=seed).bucket_by_sequence_length(
        lambda source, target: tf.strings.length(source),
        bucket_boundaries=list(range(20, 200, 20)),
        bucket_batch_sizes=[batch_size] * 10,
    )
    draws = np.random.default_rng(seed)
    sampler = RandomSampler()

    @tf.function(reduce_retracing=True, autograph=False)
    def draw(sources, seeds):
        limits = tf.fill([tf.shape(sources)[0]], max_length)
        drawn = model.answer(sources, seeds, limits, sampler)
        return drawn["token_ids"][:, 0], drawn["text"][:, 0]

    def generate():
        for sources, targets in batches:
            sources, references = (tf.repeat(texts, samples) for texts in (sources, targets))
            seeds = draws.integers(2**31, size=(len(sources), 2)).astype("int32")
            ids, texts = draw(sources, seeds)
            texts, references = (
                [text.decode() for text in each.numpy()] for each in (texts, references)
            )
            earned = np.array(sentence_bleu(texts, references)) / 10
            inputs, labels, weights = _weighed(model, ids, earned, samples, max_length)
            source_ids = model.source_tokens(sources).to_tensor(model.tokenizer.pad_id)
            yield {"source_ids": source_ids, "target_ids": inputs}, labels, weights

    inputs = {"source_ids": IDS, "target_ids": IDS}
    return tf.data.Dataset.from_generator(generate, output_signature=(inputs, IDS, WEIGHTS))


class PolicyGradientLoss(keras.losses.Loss):
    """Cross-entropy of these batches, whose weights may be negative and sum to 0.

    Padding and the start token are never sampled, so their logits do not count. Otherwise, the
    probability that texts with a low reward lose would go to them, where no reward could undo it.

    Args:
        tokenizer: The tokenizer of the texts.
    """

    def __init__(self, tokenizer):
        super().__init__(reduction="sum")
        self.never_drawn = tokenizer.pad_id, tokenizer.start_id

    def call(self, labels, logits):
        tokens = ops.arange(ops.shape(logits)[-1])
        for token in self.never_drawn:
            logits = ops.where(tokens == token, -1e9, logits)
        return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def advantages(rewards, samples):
    """Returns the difference of each reward to the mean of the others of its image.

    Args:
        rewards: Sequence of numbers, `samples` for each image side by side.
        samples: Number of rewards for each image.

    Example:

    >>> advantages([3.0, 1.0, 2.0, 2.0], samples=2).tolist()
    [2.0, -2.0, 0.0, 0.0]
    """
    rewards = np.array(rewards, "float64").reshape(-1, samples)
    others = (rewards.sum(axis=1, keepdims=True) - rewards) / (samples - 1)
    return (rewards - others).ravel()


def _weighed(model, ids, earned, samples, max_length):
    """Returns sampled tokens as inputs and labels, and the weight of each.

    All are as long as the longest text, and the weights are divided by the number of words.
    """
    inputs, labels, is_word = model.teach(ids)
    longest = int(tf.reduce_max(tf.reduce_sum(is_word, axis=1)))
    # Of a text that was cut at the maximum, the end was not drawn.
    inputs, labels, is_word = (
        each[:, : min(longest, max_length)] for each in (inputs, labels, is_word)
    )
    weights = tf.constant(advantages(earned, samples), tf.float32)[:, None]
    return inputs, labels, is_word * weights / tf.reduce_sum(is_word)


def _require_others(samples):
    if samples < 2:
        raise ValueError(
            "Each text is compared with the others of its own, so there must be 2 at least. "
            f"Received: samples={samples}."
        )
