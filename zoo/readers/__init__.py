"""Raw inputs to tensors, in one graph for training and serving."""

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")  # files that are read in folders
