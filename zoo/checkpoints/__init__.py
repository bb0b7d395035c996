"""Hugging Face checkpoints: folders with `config.json`, safetensors and a tokenizer.

One engine (`loading`, `names`, `settings`, `tensor_files`) reads them all. Each family, such as
`bert`, is a file that maps its settings and weights to their names here.

Nothing is ignored: a setting that is not implemented, a missing weight and an unused tensor raise
errors that name it.
"""
