"""Adapters of PEFT: low-rank updates (LoRA) of the weights of a base, and layers of their own."""

import os
import re
from typing import NamedTuple

import numpy as np

from zoo.checkpoints.settings import ANSWERS, REGRESSION, TAGS, Settings
from zoo.checkpoints.tensor_files import TensorFiles
from zoo.storage import CONFIG
from zoo.storage.json_files import read_named_json
from zoo.storage.kinds import ADAPTER, HUB, LARGEST_CONFIG, REPOSITORY

WEIGHTS = "adapter_model"
_OUTER = "base_model.model."
_UPDATE = re.compile(r"(.+)\.lora_(A|B|magnitude_vector)(\.default)?(\.weight)?")
_OUTPUT = re.compile(  # the weight of the last layer of a head
    r"(.+\.)?(classifier(\.dense|\.out_proj)?|classification_head\.out_proj|score|qa_outputs)\.weight"
)
_PROBLEM_TYPES = {"TOKEN_CLS": TAGS, "QUESTION_ANS": ANSWERS}  # by PEFT's `task_type`
_STARTS = True, False, "gaussian", "orthogonal", "eva"  # which leave the base as it was
_WITHOUT_MEANING = (  # for merging
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_dropout",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "r",  # each update has its own
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
)


def base_of(folder):
    """Returns the model that an adapter was trained for, as `zoo.load` takes it.

    Raises:
        ValueError: If it is neither a folder here nor a repository of the Hub.
    """
    settings = _settings(folder)
    base = settings.take("base_model_name_or_path")
    if os.path.isdir(base):
        return base
    if not REPOSITORY.fullmatch(base):
        raise ValueError(
            f"{settings.path} says base_model_name_or_path={base!r}, which is no folder here. "
            "Write that of the base there, or its name in the Hub: 'organization/name'."
        )
    return f"{HUB}{base}"


class _Update(NamedTuple):
    """A low-rank update of a weight.

    Attributes:
        down, up: Names of the tensors A, `(rank, inputs)`, and B, `(outputs, rank)`.
        magnitude: Name of the lengths of the rows of the sum, as in DoRA, or `None`.
        factor: Factor of the product.
    """

    down: str
    up: str
    magnitude: str | None
    factor: float


class AdaptedFiles(TensorFiles):
    """The tensors of a base, to which the updates of an adapter are added.

    $$ W' = W + \\frac{\\alpha}{r} B A $$

    With `use_rslora`, the divisor is the square root of the rank r. With `use_dora`, each row of W'
    is then scaled to a learned length. Layers that were trained in full (`modules_to_save`), such
    as a head, take the place of those of the base, or are added.

    Papers: Hu et al. 2021, LoRA (https://arxiv.org/abs/2106.09685); Liu et al. 2024, DoRA
    (https://arxiv.org/abs/2402.09353).

    Args:
        base: Folder of the base.
        adapter: Folder of the adapter.

    Raises:
        ValueError: As for `TensorFiles`, or if the adapter is of another kind, or does not fit.
    """

    def __init__(self, base, adapter):
        super().__init__(base)
        settings = _settings(adapter)
        settings.require(peft_type="LORA", bias="none", lora_bias=False, layer_replication=None)
        settings.require(use_qalora=False)
        starts = settings.take("init_lora_weights", default=True)
        if starts not in _STARTS:
            raise ValueError(
                f"{settings.path} says init_lora_weights={starts!r}, which is not implemented: the "
                "base of such an adapter has other weights."
            )
        self._alpha = settings.take("lora_alpha"), settings.take("alpha_pattern", default={})
        self._root = 0.5 if settings.take("use_rslora", default=False) else 1.0
        self._is_upright = settings.take("fan_in_fan_out", default=False)
        self._task = settings.take("task_type", default=None)
        trained = settings.take("modules_to_save", default=())
        has_lengths = settings.take("use_dora", default=False)
        settings.ignore(*_WITHOUT_MEANING)
        settings.require_all_seen()
        self._folder_of_adapter, self._adapter = adapter, TensorFiles(adapter, WEIGHTS)
        self._updates, self._replaced = {}, {}
        updates = {}
        for name in self._adapter.shapes:
            inner = name.removeprefix(_OUTER)
            found = _UPDATE.fullmatch(inner)
            if found is not None:
                updates.setdefault(found[1], {})[found[2]] = name
            elif any(f"{layer}." in inner for layer in trained):  # PEFT looks at ends of names
                self._replaced[self._in_base(inner) or inner] = name
            else:
                raise ValueError(
                    f"The adapter in {adapter} holds {name}, which is not implemented: it should "
                    f"hold low-rank updates, and the layers {[*trained]} of modules_to_save. Merge "
                    "it into its base with PEFT: merge_and_unload()."
                )
        parts = {"A", "B", "magnitude_vector"} if has_lengths else {"A", "B"}
        for layer, names in updates.items():
            weight = self._in_base(f"{layer}.weight")
            if weight is None:
                raise ValueError(
                    f"The adapter in {adapter} changes {layer}.weight, which {base} lacks: it is "
                    "of another model."
                )
            self._updates[weight] = self._update(layer, names, parts)
        self.shapes |= {own: self._adapter.shapes[name] for own, name in self._replaced.items()}

    def _in_base(self, name):
        """Returns the name of a tensor in the base, whose files may leave out a prefix."""
        return next((each for each in (name, name.partition(".")[2]) if each in self.shapes), None)

    def _update(self, layer, names, parts):
        """Returns the `_Update` of a layer, which must have these parts."""
        shapes = {part: self._adapter.shapes[name] for part, name in names.items()}
        if names.keys() != parts or len(shapes["A"]) != 2:
            raise ValueError(
                f"The adapter in {self._folder_of_adapter} updates {layer} by {shapes}, which is "
                f"not implemented: there should be {', '.join(sorted(parts))}, the first two of "
                "them matrices."
            )
        alpha, alphas = self._alpha
        for pattern, own in alphas.items():
            if re.match(rf"(.*\.)?({pattern})$", layer):
                alpha = own
                break
        factor = alpha / shapes["A"][0] ** self._root
        return _Update(names["A"], names["B"], names.get("magnitude_vector"), factor)

    def arguments_of_head(self, labels=None, problem_type=None):
        """Returns what `read_checkpoint` needs for the head of the adapter.

        Args:
            labels: Names of its labels, which PEFT does not save, or `None` for those of the base
                if it has as many, or `"LABEL_0"` and so on.
            problem_type: Kind of its problem, or `None` for that of the adapter.

        Returns:
            `None` if it has no head; a dictionary of `labels` and `problem_type`.

        Raises:
            ValueError: If it has another number of labels.
        """
        outputs = sorted(name for name in self._replaced if _OUTPUT.fullmatch(name))
        if not outputs:
            return None
        number = self.shapes[outputs[-1]][0]
        asked = problem_type or _PROBLEM_TYPES.get(self._task)
        if asked == ANSWERS:
            return {"labels": labels, "problem_type": asked}
        if labels is None and number == 1 and asked in (None, REGRESSION):
            return {"labels": None, "problem_type": REGRESSION}
        if labels is None:
            labels = Settings.read(self._folder / CONFIG).labels
            if len(labels) != number:
                labels = [f"LABEL_{place}" for place in range(number)]
        if len(labels) != number:
            raise ValueError(
                f"The head of the adapter in {self._folder_of_adapter} has {number} labels. "
                f"Received: labels={labels!r}."
            )
        return {"labels": labels, "problem_type": asked}

    def require_own_output(self, names):
        """Raises a `ValueError` for a new table of embeddings that is also the output layer.

        In PEFT the output layer keeps the table of the base.

        Args:
            names: `Names` of the model.
        """
        for output, table in names.tied.items():
            is_used = not any(re.fullmatch(pattern, output) for pattern in names.unused)
            if is_used and output not in self.shapes and self._in_base(table) in self._replaced:
                raise ValueError(
                    f"The adapter in {self._folder_of_adapter} brings {table}, which in its base "
                    f"is also {output}, and no longer is with the adapter: this is not "
                    "implemented. Merge it into its base with PEFT: merge_and_unload()."
                )

    def read(self, name, first=0, last=None):
        if name in self._replaced:
            return self._adapter.read(self._replaced[name], first, last)
        if name not in self._updates:
            return super().read(name, first, last)
        update, rows = self._updates[name], slice(first, last)
        down, up = (self._adapter.read(each).astype("float32") for each in update[:2])
        if update.magnitude is not None:  # of all rows, as the lengths may be those of columns
            weight = super().read(name).astype("float32")
            weight = weight.T if self._is_upright else weight
            weight = weight + update.factor * np.matmul(up, down)
            lengths = np.linalg.norm(weight, axis=1, keepdims=True)
            learned = self._adapter.read(update.magnitude).astype("float32").reshape(-1, 1)
            weight = weight * learned / lengths
            return (weight.T if self._is_upright else weight)[rows]
        down, up = (down[:, rows], up) if self._is_upright else (down, up[rows])
        product = update.factor * np.matmul(up, down)
        product = product.T if self._is_upright else product
        return super().read(name, first, last).astype("float32") + product


def _settings(folder):
    path = folder / ADAPTER
    return Settings(path, read_named_json(path, LARGEST_CONFIG))
