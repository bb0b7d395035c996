"""StarCoder and SantaCoder (Li et al. 2023): a GPT-2 whose heads share one key and value."""

from zoo.checkpoints import gpt2
from zoo.checkpoints.gpt2 import ROLES, joint
from zoo.checkpoints.language_models import language_plan, require_language_model
from zoo.checkpoints.names import Names, Part

CLASSES = ("GPTBigCodeForCausalLM",)
JOINT = "transformer.h.{}.attn.c_attn"


def plan(settings, folder):
    require_language_model(settings, folder, CLASSES)
    settings.require(add_cross_attention=False, tie_word_embeddings=True)
    settings.ignore("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32")
    settings.ignore("num_key_value_heads")  # which `multi_query` tells
    # How the model was served.
    settings.ignore("inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length")
    settings.ignore("pre_allocate_kv_cache", "validate_runner_input")
    options = gpt2.stack_options(settings) | {
        "context_length": settings.take("n_positions", default=1024),
        "pad_id": -1,
    }
    size, heads = options["size"], options["num_heads"]
    if settings.take("multi_query", default=True):
        options["num_key_value_heads"] = 1
        values = size + size // heads  # where they begin
        parts = {
            "query": Part(JOINT, -1, 0, size),
            "key": Part(JOINT, -1, size, values),
            "value": Part(JOINT, -1, values, None),
        }
    else:
        parts = joint(JOINT, ROLES, size, heads)
    table = gpt2.table_of(parts)
    return language_plan(settings, folder, options, Names(table, gpt2.BASE, {}, gpt2.UNUSED))
