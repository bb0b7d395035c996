"""Attention through a whole stack: how much each input contributes to each output position."""

from keras import ops


def attention_rollout(weights):
    """Multiplies attention through all blocks, where half of each block's output is its input.

    $$ A = \\prod_l \\frac{1}{2} (I + mean_{heads}(W_l)) $$

    Paper: Abnar and Zuidema 2020, Quantifying Attention Flow in Transformers, equation 1
    (https://arxiv.org/abs/2005.00928). It ignores values and feed-forward networks: it is a hint
    where to look, not an explanation of the answer.

    Args:
        weights: List of `(batch, heads, length, length)`, the weights of each block from the first.

    Returns:
        float32 `(batch, length, length)`; each row sums to 1.

    Example:

    >>> half = np.full((1, 1, 2, 2), 0.5)
    >>> attention_rollout([half, half]).numpy().tolist()
    [[[0.625, 0.375], [0.375, 0.625]]]
    """
    joint = None
    for of_block in weights:
        mean = ops.mean(ops.cast(of_block, "float32"), axis=1)
        block = 0.5 * (mean + ops.eye(mean.shape[-1] or ops.shape(mean)[-1]))
        joint = block if joint is None else ops.matmul(block, joint)
    return joint
