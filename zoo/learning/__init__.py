"""Training from arrays alone, on any backend of Keras; nothing here imports TensorFlow."""
