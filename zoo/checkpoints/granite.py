"""Granite (Granite Team 2024): a Llama with four factors, after Yang et al. 2022 and 2023 (µP)."""

import keras

from keras_attention.scores import ScaledDot
from zoo.checkpoints import llama
from zoo.checkpoints.language_models import require_language_model
from zoo.checkpoints.rotary import rotary, settings_of_rotary

CLASSES = ("GraniteForCausalLM",)


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)

    def factor(name):
        return float(settings.take(name, default=1.0))

    options = {
        "position": rotary(settings, settings_of_rotary(settings)),
        "score": keras.saving.serialize_keras_object(
            ScaledDot(scale=factor("attention_multiplier"))
        ),
        "scaled": factor("embedding_multiplier"),
        "residual_scale": factor("residual_multiplier"),
        "output_scale": 1.0 / factor("logits_scaling"),
    }
    return llama.plan_of(settings, folder, options)
