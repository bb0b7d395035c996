"""Adapters of PEFT: low-rank updates (LoRA), which are added to the weights of their base."""

import os
import re

import numpy as np

from zoo.checkpoints.settings import Settings
from zoo.checkpoints.tensor_files import TensorFiles
from zoo.storage.json_files import read_named_json
from zoo.storage.kinds import ADAPTER, HUB, LARGEST_CONFIG, REPOSITORY

WEIGHTS = "adapter_model"
_UPDATE = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.(?:default\.)?weight")
_WITHOUT_MEANING = (  # for merging
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "exclude_modules",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_dropout",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
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


class AdaptedFiles(TensorFiles):
    """The tensors of a base, to which the updates of an adapter are added.

    $$ W' = W + \\frac{\\alpha}{r} B A $$

    With `use_rslora`, the divisor is the square root of the rank r.

    Paper: Hu et al. 2021, LoRA (https://arxiv.org/abs/2106.09685).

    Args:
        base: Folder of the base.
        adapter: Folder of the adapter.

    Raises:
        ValueError: As for `TensorFiles`, or if the adapter is of another kind, or does not fit.
    """

    def __init__(self, base, adapter):
        super().__init__(base)
        settings = _settings(adapter)
        settings.require(peft_type="LORA", bias="none", use_dora=False, lora_bias=False)
        settings.require(modules_to_save=None, layer_replication=None, use_qalora=False)
        settings.require(rank_pattern={}, alpha_pattern={})
        starts = settings.take("init_lora_weights", default=True)
        if starts not in (True, False, "gaussian"):
            raise ValueError(
                f"{settings.path} says init_lora_weights={starts!r}, which is not implemented: the "
                "base of such an adapter has other weights."
            )
        rank, alpha = settings.take("r"), settings.take("lora_alpha")
        self._factor = alpha / (rank**0.5 if settings.take("use_rslora", default=False) else rank)
        self._is_upright = settings.take("fan_in_fan_out", default=False)
        settings.ignore(*_WITHOUT_MEANING)
        settings.require_all_seen()
        self._adapter, self._updates = TensorFiles(adapter, WEIGHTS), {}
        for name in self._adapter.shapes:
            found = _UPDATE.fullmatch(name)
            if found is None:
                raise ValueError(
                    f"The adapter in {adapter} holds {name}, which is not implemented: it should "
                    "hold low-rank updates alone. Merge it into its base with PEFT: "
                    "merge_and_unload()."
                )
            weight = self._in_base(f"{found[1]}.weight", adapter)
            self._updates.setdefault(weight, {})[found[2]] = name

    def _in_base(self, name, adapter):
        """Returns the name of a weight in the base, whose files may leave out a prefix."""
        for each in (name, name.partition(".")[2]):
            if each in self.shapes:
                return each
        raise ValueError(
            f"The adapter in {adapter} changes {name}, which {self._folder} lacks: it is of "
            "another model."
        )

    def read(self, name, first=0, last=None):
        tensor = super().read(name, first, last)
        if name not in self._updates:
            return tensor
        down, up = (self._adapter.read(self._updates[name][side]) for side in "AB")
        update = self._factor * np.matmul(up.astype("float32"), down.astype("float32"))
        update = update.T if self._is_upright else update
        return tensor.astype("float32") + update[first:last]


def _settings(folder):
    path = folder / ADAPTER
    return Settings(path, read_named_json(path, LARGEST_CONFIG))
