"""Hugging Face's `config.json`, in which no setting may be overlooked."""

import json

from zoo.storage.json_files import read_named_json
from zoo.storage.kinds import LARGEST_CONFIG

SINGLE, MULTI = "single_label_classification", "multi_label_classification"
REGRESSION = "regression"
PROBLEM_TYPES = SINGLE, MULTI, REGRESSION  # of labels and numbers
ANSWERS, TAGS = "question_answering", "token_classification"  # of text encoders
EMPTY = None, {}, [], ""  # such as `"structure": []` of TinyBERT
_REQUIRED = object()
_WITHOUT_MEANING = {  # without an effect on the outputs of a model
    "architectures",
    "auto_map",
    "bos_token_id",
    "classifier_dropout",
    "cls_token_id",
    "cross_attention_hidden_size",
    "custom_pipelines",
    "decoder_start_token_id",
    "directionality",
    "dtype",
    "emb_size",
    "eos_token_id",
    "eos_token_ids",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "language",
    "model_type",
    "name",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "pad_token_id",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "pretraining_tp",
    "problem_type",
    "processor_class",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
}


class Settings:
    """The content of a config, which records the settings that were read.

    Args:
        path: The file, for messages.
        content: Its content.
        new_labels: List of labels for a new head, in place of those of the file.
        problem_type: `"single_label_classification"`, `"multi_label_classification"`,
            `"regression"`, `"token_classification"` or `"question_answering"`, in place of the one
            in the file.
    """

    def __init__(self, path, content, new_labels=None, problem_type=None):
        self.path, self._content, self.new_labels = path, content, new_labels
        self._problem_type = problem_type
        self._seen = set(_WITHOUT_MEANING)

    @classmethod
    def read(cls, path, new_labels=None, problem_type=None):
        """Reads a file.

        Raises:
            ValueError: If there is none, or it is not the config of a model.
        """
        if not path.is_file():
            raise ValueError(f"{path} is missing: it describes the model.")
        content = read_named_json(path, LARGEST_CONFIG)
        if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
            raise ValueError(f"{path} is not the config of a model: it has no 'model_type'.")
        return cls(path, content, new_labels, problem_type)

    def take(self, *names, default=_REQUIRED):
        """Returns the first of these settings that exists.

        Raises:
            ValueError: If none exists, and there is no default.
        """
        self._seen.update(names)
        for name in names:
            if self._content.get(name) is not None:
                return self._content[name]
        if default is _REQUIRED:
            raise ValueError(f"{self.path} lacks {names[0]!r}.")
        return default

    def __contains__(self, name):
        """Whether the file has a setting, also if it is null."""
        return name in self._content

    def require(self, **expected):
        """Checks settings that are supported with one value only, which is also their default.

        Raises:
            ValueError: If one has another value.
        """
        for name, value in expected.items():
            found = self.take(name, default=value)
            if found != value:
                raise ValueError(
                    f"{self.path} says {name}={found!r}, which is not implemented: it should be "
                    f"{value!r}."
                )

    def take_same(self, *names):
        """Returns the common value of settings that must be equal here.

        Raises:
            ValueError: If they differ, or one is missing.
        """
        values = [self.take(name) for name in names]
        if values.count(values[0]) < len(values):
            told = " and ".join(
                f"{name}={value}" for name, value in zip(names, values, strict=True)
            )
            raise ValueError(f"{self.path} says {told}; that they differ is not implemented.")
        return values[0]

    def ignore(self, *names):
        """Marks settings without an effect here as seen."""
        self._seen.update(names)

    def assume_class(self, name):
        """Takes the model for one of this class of transformers if the file names none."""
        if not self.architecture:
            self._content = {**self._content, "architectures": [name]}

    def require_class(self, names):
        """Raises a `ValueError` unless the model has one of these classes of transformers."""
        if self.architecture not in names:
            name = self.architecture or "model of an unknown class"
            raise ValueError(
                f"{self.path} is the config of a {name}, which is not implemented. Implemented "
                f"classes of {self.model_type}: {', '.join(names)}."
            )

    def require_all_seen(self):
        """Raises a `ValueError` if a setting was never read, and so would be ignored."""
        unknown = {
            name: value
            for name, value in self._content.items()
            if name not in self._seen and not name.startswith("_") and value not in EMPTY
        }
        if unknown:
            told = ", ".join(f"{name}={json.dumps(value)}" for name, value in unknown.items())
            raise ValueError(
                f"{self.path} has settings that are not implemented: {told}. If they do not change "
                "what the model computes, remove them from the file."
            )

    @property
    def model_type(self):
        return self._content["model_type"]

    @property
    def architecture(self):
        """Name of the class in transformers, such as `"BertForMaskedLM"`; `""` if missing."""
        return (self.take("architectures", default=None) or [""])[0]

    @property
    def is_of_answers(self):
        """Whether a head that finds answers was asked for, whatever head the file has."""
        if self._problem_type == ANSWERS and self.new_labels is not None:
            raise ValueError(f"Answers have no labels. Received: labels={self.new_labels!r}.")
        return self._problem_type == ANSWERS

    def is_of_tags(self, has_tags):
        """Whether the model labels words: if asked to, or by default if that of the file does.

        Args:
            has_tags: Whether the head of the file labels words.

        Raises:
            ValueError: If it was asked to, the head of the file does not, and no labels are given
                for a new one.
        """
        if self._problem_type is None:
            return has_tags
        if self._problem_type == TAGS and not has_tags and self.new_labels is None:
            raise ValueError(
                f"{self.path} is the config of a {self.architecture}, which has no head for the "
                f"labels of words. For a new one, pass labels=['O', 'B-PER', ...] with "
                f"problem_type={TAGS!r}."
            )
        return self._problem_type == TAGS

    @property
    def makes_head(self):
        """Whether the model gets a new head, whatever head the file has."""
        if self.is_of_answers:
            return not self.architecture.endswith("ForQuestionAnswering")
        if self.new_labels or self._problem_type != REGRESSION:
            return bool(self.new_labels)
        has_number = self.architecture.endswith("ForSequenceClassification")
        return not (has_number and len(self.labels) == 1)

    @property
    def problem_type(self):
        """The kind of problem of a model with labels, one of `PROBLEM_TYPES`.

        By default, a single output is a number, and several are mutually exclusive labels.

        Raises:
            ValueError: If it is none of these, or does not fit the labels.
        """
        labels, asked = self.new_labels or self.labels, self._problem_type
        if asked is None and self.new_labels is None:
            asked = self.take("problem_type", default=None)
        told = f"problem_type={asked!r} and {len(labels)} labels"
        if asked == REGRESSION and self.new_labels is not None:
            raise ValueError(f"Regression has no labels. Received: labels={self.new_labels!r}.")
        if asked is None:
            asked = SINGLE if len(labels) > 1 or self.new_labels else REGRESSION
        if asked == REGRESSION and len(labels) > 1 and not self.makes_head:
            raise ValueError(
                f"{self.path} is the config of a regression model with {len(labels)} outputs, "
                "which is not implemented."
            )
        if asked not in PROBLEM_TYPES:
            raise ValueError(
                f"`problem_type` must be one of {', '.join(PROBLEM_TYPES)}, or for a text encoder "
                f"{TAGS} or {ANSWERS}. Received: {asked!r}."
            )
        if asked == SINGLE and len(labels) < 2:
            raise ValueError(
                f"A single-label problem needs at least two labels. Received: {told}. For "
                f"regression, pass problem_type={REGRESSION!r}; for a label that may be absent, "
                f"{MULTI!r}."
            )
        return asked

    @property
    def labels(self):
        """Names of the labels in the order of their indices.

        Repeated names, such as the two cranes of ImageNet, have their index appended.
        """
        names = self.take("id2label", default=None)
        if names is None:
            number = self.take("num_labels", default=2)
            return [f"LABEL_{place}" for place in range(number)]
        numbers = sorted(map(int, names))
        if numbers != list(range(len(numbers))):
            raise ValueError(f"{self.path} numbers its labels {numbers}. They must count from 0.")
        labels = []
        for number in numbers:
            name = str(names[str(number)])
            labels.append(f"{name} ({number})" if name in labels else name)
        return labels


def settings_of_labels(labels, problem_type):
    """Returns a dictionary of the settings that tell labels and their kind of problem.

    Args:
        labels: List of labels, or `None`.
        problem_type: One of `PROBLEM_TYPES`, or `None`.
    """
    found = {} if problem_type is None else {"problem_type": problem_type}
    if labels is not None:
        found["id2label"] = dict(enumerate(labels))
        found["label2id"] = {label: number for number, label in enumerate(labels)}
    return found
