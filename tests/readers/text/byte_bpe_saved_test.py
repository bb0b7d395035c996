"""The tokenizer in graphs, in SavedModels and in files."""

import json
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.readers.text.byte_bpe_texts import TRICKY_TEXTS
from zoo.readers.text import ByteBPETokenizer

# In graphs


def test_function_with_signature_and_dataset_equal_eager(tokenizer):
    expected = tokenizer.tokenize(TRICKY_TEXTS).to_list()
    signature = [tf.TensorSpec([None], tf.string)]
    in_graph = tf.function(tokenizer.tokenize, input_signature=signature)
    assert in_graph(tf.constant(TRICKY_TEXTS)).to_list() == expected
    assert in_graph(tf.constant([], tf.string)).to_list() == []
    batches = tf.data.Dataset.from_tensor_slices(TRICKY_TEXTS).batch(3)
    batches = batches.map(tokenizer.tokenize, num_parallel_calls=2)
    assert [row for batch in batches for row in batch.to_list()] == expected


def test_built_inside_a_graph(tokenizer):
    made = []

    @tf.function
    def tokenize(texts):
        if not made:
            made.append(ByteBPETokenizer(tokenizer._merges, ["A"]))
        return made[0].tokenize(texts)

    assert tokenize(tf.constant(["A man"])).to_list() == tokenizer.tokenize(["A man"]).to_list()


class RoundTrip(tf.Module):
    """A model around the tokenizer: dense ids of a text, and the text again."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([2], tf.int64)])
    def serve(self, text, seed):
        sampled = self.tokenizer.tokenize(text, dropout=0.1, seed=seed)
        return {
            "token_ids": self.tokenizer.tokenize(text).to_tensor(),
            "text": self.tokenizer.detokenize(sampled),
        }


@pytest.fixture(scope="module")
def saved_model(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved_model")
    model = RoundTrip(tokenizer)
    tf.saved_model.save(model, str(path), signatures=model.serve)
    return path


SERVE_ALONE = """
import json, sys
for package in ("zoo", "keras_attention", "tokenizers"):
    sys.modules[package] = None
import tensorflow as tf

serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
texts = json.loads(sys.argv[2])
outputs = serve(text=tf.constant(texts), seed=tf.constant([1, 2], tf.int64))
restored = [text.decode() for text in outputs["text"].numpy()]
print(json.dumps({"token_ids": outputs["token_ids"].numpy().tolist(), "text": restored}))
"""


@pytest.mark.full  # `saved_model_test` runs an export without Python
def test_saved_model_serves_without_this_package(tokenizer, saved_model):
    arguments = [str(saved_model), json.dumps(TRICKY_TEXTS)]
    command = [sys.executable, "-c", SERVE_ALONE, *arguments]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    outputs = json.loads(printed.splitlines()[-1])
    assert outputs["token_ids"] == tokenizer.tokenize(TRICKY_TEXTS).to_tensor().numpy().tolist()
    assert outputs["text"] == TRICKY_TEXTS


def test_saved_model_holds_core_ops_only(saved_model):
    content = saved_model_pb2.SavedModel.FromString((saved_model / "saved_model.pb").read_bytes())
    graph = content.meta_graphs[0].graph_def
    functions = [node for function in graph.library.function for node in function.node_def]
    ops = {node.op for node in [*graph.node, *functions]}
    assert {"RegexReplace", "StaticRegexReplace"} & ops  # the ops of functions are there
    assert not [op for op in ops if ">" in op or "PyFunc" in op]


# Files


def test_save_and_load(tokenizer, tmp_path):
    path = tmp_path / "vocabulary.json"
    tokenizer.save(path)
    loaded = ByteBPETokenizer.load(path)
    assert loaded.vocabulary_size == tokenizer.vocabulary_size
    assert loaded.tokenize(TRICKY_TEXTS).to_list() == tokenizer.tokenize(TRICKY_TEXTS).to_list()
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert '" Несколько"' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "Expecting"),
        ("[]", '"format" is not'),
        ('{"format": "ByteBPETokenizer 2", "merges": [], "words": []}', '"format" is not'),
        ('{"format": "ByteBPETokenizer 1", "words": []}', '"merges" is not a list of strings'),
        ('{"format": "ByteBPETokenizer 1", "merges": [], "words": [1]}', '"words" is not a list'),
        ('{"format": "ByteBPETokenizer 1", "merges": ["a b c"], "words": []}', "two pieces"),
        ('{"format": "ByteBPETokenizer 1", "merges": ["ab c"], "words": []}', "two pieces"),
    ],
)
def test_load_says_what_is_wrong_with_a_file(tmp_path, content, complaint):
    path = tmp_path / "broken.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=complaint) as error:
        ByteBPETokenizer.load(path)
    assert str(path) in str(error.value)
