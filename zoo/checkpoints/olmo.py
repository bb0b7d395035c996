"""OLMo 2 (OLMo Team 2025) and OLMo 3: a Llama that normalizes outputs, and queries and keys."""

from zoo.checkpoints import llama
from zoo.checkpoints.language_models import require_language_model
from zoo.checkpoints.layer_types import FULL, WINDOWED, windows
from zoo.checkpoints.rotary import rotary, rotary_by_kind, settings_of_rotary

TABLE = {
    **llama.TABLE,
    **llama.NORMS,
    "blocks.{}.attention_norm": "model.layers.{}.post_attention_layernorm",
    "blocks.{}.feed_forward_norm": "model.layers.{}.post_feedforward_layernorm",
}
CLASSES = "Olmo2ForCausalLM", "Olmo3ForCausalLM"


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    epsilon = settings.take("rms_norm_eps", default=1e-5)
    is_third = settings.model_type == "olmo3"
    options = {
        "query_key_norm": epsilon,
        "joint_query_key_norm": True,
        "epsilon": epsilon,
        "normalize": "output",
        **(_windows_and_positions(settings) if is_third else _position(settings)),
    }
    return llama.plan_of(settings, folder, options, TABLE)


def _position(settings):
    return {"position": rotary(settings, settings_of_rotary(settings))}


def _windows_and_positions(settings):
    """Returns the options of windows, and of positions, which are scaled in other layers only."""
    number = settings.take("num_hidden_layers")
    kinds = [WINDOWED if (place + 1) % 4 else FULL for place in range(number)]
    kinds = settings.take("layer_types", default=kinds)
    options = windows(settings, settings.take("sliding_window", default=4096), kinds)
    wavelength = settings.take("rope_theta", default=500_000.0)
    return {**options, **rotary_by_kind(settings, options, wavelength, wavelength)}
