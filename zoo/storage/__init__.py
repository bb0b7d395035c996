"""Presets as files: trained models that people can read, check and pass on.

- `card.json`: what the model is, how it was trained, how good it is; hashes of the other files
- `config.json`: the architecture, its arguments and those of the task, such as the sampler
- `model.weights.h5`: the weights, as Keras reads them
- `tokenizer.json`: merges and frequent words, for a model that reads or writes texts
- `README.md`: the card for people and the Hugging Face Hub; the zoo does not read it

None of them contains code, and their authors are not trusted: hashes are compared, names of
architectures, options and classes must already be known here, and nothing is ever unpickled. Nor
can they exhaust the memory: the size of files is limited, and a model is built only as far as its
weights are in the file.
"""

CARD, CONFIG = "card.json", "config.json"
WEIGHTS, TOKENIZER = "model.weights.h5", "tokenizer.json"
README = "README.md"
HASHED = CONFIG, WEIGHTS, TOKENIZER
FILES = CARD, *HASHED
LARGEST = {CARD: 2**20, CONFIG: 2**20, WEIGHTS: 2**32, TOKENIZER: 2**26}  # bytes
