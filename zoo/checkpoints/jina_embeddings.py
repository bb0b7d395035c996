"""jina-embeddings-v3 (Sturua et al. 2024): XLM-RoBERTa with rotary positions."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.encoders import encoder_plan, head_of, joint_projections
from zoo.checkpoints.names import Names
from zoo.checkpoints.roberta import HEADS, TIED, UNUSED
from zoo.checkpoints.rotary import rotary, settings_of_rotary

PREFIX = "roberta."


def plan(settings, folder):
    head = head_of(settings, folder)
    size = settings.take("hidden_size")
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": size,
        "num_heads": settings.take("num_attention_heads"),
        "hidden": settings.take("intermediate_size"),
        "position": rotary(settings, settings_of_rotary(settings, usual=20_000.0)),
        "activation": activation(settings, settings.take("hidden_act", default="gelu")),
        "masked_activation": "gelu",
        "dropout": settings.take("hidden_dropout_prob", default=0.1),
        "attention_dropout": settings.take("attention_probs_dropout_prob", default=0.1),
        "epsilon": settings.take("layer_norm_eps", default=1e-5),
        "num_segments": settings.take("type_vocab_size", default=1),
        "max_length": settings.take("max_position_embeddings"),
        "pooler": "tanh" if head == "labels" else None,
        "pooling": "mean" if head == "embedding" else "first",
    }
    block = PREFIX + "encoder.layers.{}."
    table = {
        "embedding.tokens": PREFIX + "embeddings.word_embeddings.weight",
        "embedding.segments": PREFIX + "embeddings.token_type_embeddings.weight",
        "embedding.norm": PREFIX + "emb_ln",
        **joint_projections(block + "mixer.Wqkv", size),
        "blocks.{}.attention.output_projection": block + "mixer.out_proj",
        "blocks.{}.attention_norm": block + "norm1",
        "blocks.{}.feed_forward.inner": block + "mlp.fc1",
        "blocks.{}.feed_forward.outer": block + "mlp.fc2",
        "blocks.{}.feed_forward_norm": block + "norm2",
    }
    names = Names(table, PREFIX, TIED, UNUSED)
    return encoder_plan(settings, folder, head, options, HEADS, names)
