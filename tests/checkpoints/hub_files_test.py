"""Files as they are in the Hub, some of them from the first versions of transformers."""

import json

import numpy as np
import pytest

from zoo.checkpoints.families import family_of
from zoo.checkpoints.settings import Settings

BLOCKS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BLOCKS |= {"intermediate_size": 24}
SIZES = {**BLOCKS, "max_position_embeddings": 64, "vocab_size": 90}
STACKS = {
    f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")
}
WHISPER = {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "num_mel_bins": 80}
WHISPER |= {"max_source_positions": 100, "max_target_positions": 40, "vocab_size": 60}
DEBERTA = {"relative_attention": True, "share_att_key": True, "position_biased_input": False}
DEBERTA |= {"pos_att_type": ["p2c", "c2p"], "position_buckets": 4, "norm_rel_ebd": "layer_norm"}
DEEPSET = {"language": "english", "name": "Deepset", "summary_activation": "tanh"}
DEEPSET |= {"summary_last_dropout": 0, "summary_type": "first", "summary_use_proj": False}
FORCED = {"forced_decoder_ids": [[1, 59], [2, 49]]}


def plan_of(folder, config, **others):
    """Returns the plan of a config beside other files."""
    for name, content in {"config": config, **others}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    settings = Settings.read(folder / "config.json")
    plan = family_of(settings).plan(settings, folder)
    settings.require_all_seen()
    return plan


@pytest.mark.parametrize(
    ("config", "architecture"),
    [
        (
            {
                **{"model_type": "bert", **SIZES, "architectures": ["BertForPreTraining"]},
                **{"emb_size": 16, "eos_token_ids": 0, "processor_class": "BertProcessor"},
                **{"cell": {}, "pre_trained": "", "structure": [], "padding": "max_length"},
            },
            "text_encoder_masked",
        ),
        (
            {
                **{"model_type": "deberta-v2", **SIZES, **DEBERTA, **DEEPSET},
                "architectures": ["DebertaV2ForQuestionAnswering"],
            },
            "text_encoder_span",
        ),
        (
            {
                **{"model_type": "electra", **SIZES, **DEEPSET},
                "architectures": ["ElectraForQuestionAnswering"],
            },
            "text_encoder_span",
        ),
        (
            {
                **{"model_type": "llama", **SIZES, "architectures": ["LlamaForCausalLM"]},
                **{"max_sequence_length": 64, "unsloth_fixed": True},
            },
            "transformer_lm",
        ),
    ],
    ids=["bert", "deberta", "electra", "llama"],
)
def test_settings(tmp_path, config, architecture):
    assert plan_of(tmp_path, config).architecture == architecture


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("cls.predictions.bias", "text_encoder_masked"),  # SciBERT
        ("pooler.dense.bias", "text_encoder_embedding"),  # MiniLM
    ],
)
def test_a_bert_whose_class_no_file_names(tmp_path, name, architecture):
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({name: np.zeros(3, "float32")}, tmp_path / "model.safetensors")
    assert plan_of(tmp_path, {"model_type": "bert", **SIZES}).architecture == architecture


def test_tokens_that_a_whisper_forces_in_both_of_its_files(tmp_path):
    config = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]}
    config |= {**WHISPER, **STACKS, **FORCED}
    generation = {"forced_decoder_ids": [[1, None], [2, 48]], "task_to_id": {"translate": 48}}
    generation |= {"lang_to_id": {"<|en|>": 59}, "is_multilingual": True}
    options = plan_of(tmp_path, config, generation_config=generation).options
    assert (options["language"], options["task"]) == (None, "translate")


def test_padding_of_images_of_one_size(tmp_path):
    config = {"model_type": "vit", "architectures": ["ViTModel"], **BLOCKS}
    preprocessor = {"do_pad": True, "size_divisor": 32, "size": {"height": 384, "width": 384}}
    plan = plan_of(tmp_path, config, preprocessor_config=preprocessor)
    assert plan.options["reader"]["config"]["size"] == 384
    with pytest.raises(ValueError, match="not implemented: pad_size="):
        plan_of(tmp_path, config, preprocessor_config={**preprocessor, "pad_size": {"height": 9}})
