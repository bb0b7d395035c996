"""The attention layers of `keras.layers` with their own arguments, weights and files.

Each takes what its namesake takes, has the same weights in the same order and under the same names
in files, and gives the same numbers. So a model that is made of Keras' layers changes to these by
one import, and its `.weights.h5` loads; `keras_attention.from_keras` converts layers and models.
From there on, everything that `keras_attention.MultiHeadAttention` can do is one argument away:
scores, normalizers, masks, positions, implementations. "Coming from keras.layers" in the
documentation tells what differs.
"""

from keras_attention.drop_in.multi_head import GroupedQueryAttention, MultiHeadAttention
from keras_attention.drop_in.single_head import AdditiveAttention, Attention

__all__ = ["AdditiveAttention", "Attention", "GroupedQueryAttention", "MultiHeadAttention"]
