"""Drop-in replacements for the attention layers of `keras.layers`.

Each layer takes the same arguments as its namesake, has the same weights in the same order and
under the same names in files, and gives the same outputs. So a model built from Keras' layers
switches to these by changing one import, and its `.weights.h5` loads; `keras_attention.from_keras`
converts layers and models. Everything else that `keras_attention.MultiHeadAttention` offers is then
one argument away: scores, normalizers, masks, positions, implementations. "Coming from
keras.layers" in the documentation lists the differences. One of them concerns padding: Keras'
`MultiHeadAttention` removes the implicit mask of its inputs, so later layers that read them attend
to padding. Here, the inputs keep their masks.
"""

from keras_attention.drop_in.multi_head import GroupedQueryAttention, MultiHeadAttention
from keras_attention.drop_in.single_head import AdditiveAttention, Attention

__all__ = ["AdditiveAttention", "Attention", "GroupedQueryAttention", "MultiHeadAttention"]
