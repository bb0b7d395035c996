"""Checkpoints of Hugging Face: folders with `config.json`, safetensors and a tokenizer.

One engine (`loading`, `names`, `settings`, `tensor_files`) reads them all. A family, such as
`bert`, is a file that tells what its settings and its weights are called here.

Nothing is overlooked: a setting that is not implemented, a weight that the file lacks and a tensor
that has no place are errors that name it.
"""
