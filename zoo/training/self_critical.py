"""Self-critical training: a captioner learns from the scores of its own captions."""

import keras
import numpy as np
import tensorflow as tf

from zoo.decoding import RandomSampler
from zoo.metrics.caption_rewards import CaptionReward


def self_critical_batches(
    model, features, rewards=None, samples=5, batch_size=16, max_length=24, seed=0
):
    """Returns batches of captions that the model draws as they are asked for, and what they earn.

    With `n` captions drawn for each image, and their rewards `r`, the loss of a caption is

    $$ -(r_i - \\frac{1}{n - 1} \\sum_{j ≠ i} r_j) \\, \\log p(caption_i) $$

    The batches are those of plain training, with the factor in front as the weight of each word; so
    the loss to compile with is `policy_gradient_loss()`. Nothing must be prefetched: the captions
    are those of the weights of the moment. They are drawn without dropout; a model that learns from
    them with dropout learns from another model's captions, and in a few epochs comes to write
    nonsense. So build it with `dropout=0.0` and load the weights.

    Papers: Rennie et al. 2017, Self-critical sequence training (https://arxiv.org/abs/1612.00563);
    Luo 2020, A better variant of self-critical sequence training
    (https://arxiv.org/abs/2003.09971), for the other samples as the baseline.

    Args:
        model: A `Captioner` with soft attention; hard attention draws only while it learns.
        features: Data set of `annotations` and `captions`, as for `Captioner.fit`.
        rewards: What counts how much, as `weights` of `CaptionReward`; by default CIDEr-D alone.
        samples: Captions drawn for each image, at least 2.
        batch_size: Images a batch.
        max_length: Tokens of a drawn caption at most.
        seed: Seed of the draws.

    Returns:
        A data set of `(inputs, labels, weights)` for `fit`.
    """
    if samples < 2:
        raise ValueError(
            "Each caption is compared with the others of its image, so there must be 2 at least. "
            f"Received: samples={samples}."
        )
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

    @tf.function(reduce_retracing=True)
    def draw(annotations, seeds):
        limits = tf.fill([tf.shape(annotations)[0]], max_length)
        drawn = model.generate_from_annotations(annotations, seeds, limits, sampler)
        return drawn["token_ids"][:, 0], drawn["text"][:, 0]

    def generate():
        for images, annotations in batches:
            annotations = tf.repeat(tf.cast(annotations, tf.float32), samples, axis=0)
            owners = np.repeat(images.numpy(), samples)
            seeds = draws.integers(2**31, size=(len(owners), 2)).astype("int32")
            ids, texts = draw(annotations, seeds)
            captions = [text.decode().split() for text in texts.numpy()]
            earned = reward(captions, [corpus[owner] for owner in owners])
            # Of a caption that was cut at the maximum, the end was not drawn.
            inputs, labels, is_word = (each[:, :max_length] for each in model.teach(ids))
            weights = is_word * tf.constant(advantages(earned, samples), tf.float32)[:, None]
            yield {"annotations": annotations, "target_ids": inputs}, labels, weights

    shape = features.element_spec["annotations"].shape
    ids = tf.TensorSpec([None, None], tf.int32)
    signature = (
        {"annotations": tf.TensorSpec([None, *shape], tf.float32), "target_ids": ids},
        ids,
        tf.TensorSpec([None, None], tf.float32),
    )
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def policy_gradient_loss():
    """Returns the loss of `self_critical_batches`: weights may be negative, and sum to nothing."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def advantages(rewards, samples):
    """Returns by how much each reward exceeds the mean of the others of its image.

    Args:
        rewards: Sequence of numbers, `samples` for each image side by side.
        samples: How many there are for each image.

    Example:

    >>> advantages([3.0, 1.0, 2.0, 2.0], samples=2).tolist()
    [2.0, -2.0, 0.0, 0.0]
    """
    rewards = np.array(rewards, "float64").reshape(-1, samples)
    others = (rewards.sum(axis=1, keepdims=True) - rewards) / (samples - 1)
    return (rewards - others).ravel()
