"""What `import zoo` imports in a fresh process besides Keras, and what it suffices for."""

import json

import pytest

TRAINING_ONLY = ["tensorflow_datasets", "matplotlib", "tokenizers", "sacrebleu", "sacremoses"]

pytestmark = pytest.mark.full  # `cli_test` runs a command in a process of its own

SCRIPT = """
import json, sys
import keras, tensorflow
before = set(sys.modules)
import zoo
modules = sorted(set(sys.modules) - before)
tensorflow.config.run_functions_eagerly(True)  # sooner than traced
model = keras.saving.load_model(sys.argv[1])
texts = json.loads(sys.argv[2])
print(json.dumps({"modules": modules, "texts": model.translate(texts, "greedy")}))
"""


@pytest.fixture(scope="module")
def answer(bahdanau, run_python, sources, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "toy.keras"
    bahdanau.save(path)
    result = run_python("-c", SCRIPT, path, json.dumps(sources))
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


@pytest.mark.parametrize("module", TRAINING_ONLY)
def test_import_zoo_is_light(answer, module):
    assert module not in answer["modules"]


def test_a_keras_file_translates_in_a_fresh_process(answer, bahdanau, sources):
    assert answer["texts"] == bahdanau.translate(sources, "greedy")
