"""Presets as files: trained models that people can read, check and pass on.

- `card.json`: what it is, how it was trained, how good it is, hashes of the other files
- `config.json`: the architecture, its arguments, and those of the task, such as the sampler
- `model.weights.h5`: the weights, as Keras reads them
- `tokenizer.json`: merges and frequent words, for a model that reads or writes texts
- `README.md`: the card for people and the Hugging Face hub; nothing reads it

None of them holds code. Whoever made them is not trusted: hashes are compared, names of
architectures, options and classes must be known here already, and nothing is ever unpickled. Nor
do they decide on memory: files have a largest size, and a model is built as far as its weights are
in the file.
"""

CARD, CONFIG = "card.json", "config.json"
WEIGHTS, TOKENIZER = "model.weights.h5", "tokenizer.json"
README = "README.md"
HASHED = CONFIG, WEIGHTS, TOKENIZER
FILES = CARD, *HASHED
LARGEST = {CARD: 2**20, CONFIG: 2**20, WEIGHTS: 2**32, TOKENIZER: 2**26}  # bytes
