"""Nomic BERT (Nussbaum et al. 2024): BERT with rotary positions, SwiGLU and almost no biases."""

import keras

from keras_attention.positions import Rotary
from zoo.checkpoints.activations import activation
from zoo.checkpoints.encoders import encoder_plan, head_without_answers, joint_projections
from zoo.checkpoints.names import Names
from zoo.checkpoints.rotary import settings_of_rotary

PREFIX = "nomic_bert."
BLOCK = PREFIX + "encoder.layers.{}."
HEADS = {
    "labels": {"pooler": PREFIX + "pooler.dense", "output_layer": "classifier"},
    "tags": {"output_layer": "classifier"},
    "masked": {
        "transform": "cls.predictions.transform.dense",
        "transform_norm": "cls.predictions.transform.layer_norm",
        "output_bias": "cls.predictions.bias",
    },
    "embedding": {},
}
TIED = {
    "cls.predictions.decoder.weight": PREFIX + "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
UNUSED = (r"(nomic_bert\.)?pooler\.dense\.(weight|bias)",)


def plan(settings, folder):
    _require_usual(settings)
    head = head_without_answers(settings, folder, "a Nomic BERT")
    size = settings.take("hidden_size", "n_embd")
    function = settings.take("hidden_act", "activation_function", default="silu")
    function = activation(settings, "silu" if function == "swiglu" else function)
    options = {
        "num_layers": settings.take("num_hidden_layers", "n_layer"),
        "size": size,
        "num_heads": settings.take("num_attention_heads", "n_head"),
        "key_dim": settings.take("head_dim", default=None),
        "hidden": settings.take("intermediate_size", "n_inner"),
        "position": _position(settings),
        "activation": function,
        "masked_activation": function,
        "gated": True,
        "use_bias": [],
        "dropout": settings.take("hidden_dropout_prob", "resid_pdrop", default=0.0),
        "attention_dropout": settings.take(
            "attention_probs_dropout_prob", "attn_pdrop", default=0.0
        ),
        "epsilon": settings.take("layer_norm_eps", "layer_norm_epsilon", default=1e-12),
        "num_segments": settings.take("type_vocab_size", default=2),
        "max_length": settings.take("max_position_embeddings", "max_trained_positions"),
        "pooler": "tanh" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    table = {
        "embedding.tokens": PREFIX + "embeddings.word_embeddings.weight",
        "embedding.segments": PREFIX + "embeddings.token_type_embeddings.weight",
        "embedding.norm": PREFIX + "emb_ln",
        **joint_projections(BLOCK + "attn.Wqkv", size),
        "blocks.{}.attention.output_projection": BLOCK + "attn.out_proj",
        "blocks.{}.attention_norm": BLOCK + "norm1",
        "blocks.{}.feed_forward.gate": BLOCK + "mlp.fc12",
        "blocks.{}.feed_forward.inner": BLOCK + "mlp.fc11",
        "blocks.{}.feed_forward.outer": BLOCK + "mlp.fc2",
        "blocks.{}.feed_forward_norm": BLOCK + "norm2",
    }
    names = Names(table, PREFIX, TIED, UNUSED)
    return encoder_plan(settings, folder, head, options, HEADS, names)


def _position(settings):
    found = settings_of_rotary(settings, "rotary_emb_base", usual=1000.0)
    wavelength, kind = found.pop("rope_theta"), found.pop("rope_type", "default")
    if kind != "default" or found:
        raise ValueError(
            f"{settings.path} scales rotary positions by {kind!r}, which is not implemented."
        )
    return keras.saving.serialize_keras_object(Rotary(wavelength, pairs="halves"))


def _require_usual(settings):
    """Checks the settings of the authors' own code, most of which transformers does not have."""
    settings.require(
        causal=False,
        mlp_fc1_bias=False,
        mlp_fc2_bias=False,
        parallel_block=False,
        prenorm=False,
        qkv_proj_bias=False,
        rotary_emb_fraction=1.0,
        rotary_emb_interleaved=False,
        rotary_emb_scale_base=None,
        rotary_scaling_factor=None,
        scale_attn_by_inverse_layer_idx=False,
        scale_attn_weights=True,
        use_rms_norm=False,
    )
    settings.ignore(
        "dense_seq_output",
        "embd_pdrop",
        "fused_bias_fc",
        "fused_dropout_add_ln",
        "n_positions",
        "pad_vocab_size_multiple",
        "parallel_block_tied_norm",
        "reorder_and_upcast_attn",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "use_flash_attn",
        "use_xentropy",
    )
