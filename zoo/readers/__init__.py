"""Raw inputs to tensors, in one graph for training and serving."""
