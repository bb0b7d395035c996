"""GTE (Zhang et al. 2024, mGTE): BERT with rotary positions and a gated feed-forward network."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.encoders import encoder_plan, head_without_answers, joint_projections
from zoo.checkpoints.names import Names, Part
from zoo.checkpoints.rotary import rotary, settings_of_rotary
from zoo.checkpoints.tensor_files import TensorFiles

OF_AUTHORS = "new."  # the prefix in their files; that of transformers is "gte."


def plan(settings, folder):
    head = head_without_answers(settings, folder, "a GTE")
    size, hidden = settings.take("hidden_size"), settings.take("intermediate_size")
    function = activation(settings, settings.take("hidden_act", default="gelu"))
    options = {
        "num_layers": settings.take("num_hidden_layers"),
        "size": size,
        "num_heads": settings.take("num_attention_heads"),
        "hidden": hidden,
        "position": rotary(settings, settings_of_rotary(settings, usual=160_000.0)),
        "activation": function,
        "masked_activation": "gelu",
        "gated": True,
        "use_bias": ["attention", "outer"],
        "dropout": settings.take("hidden_dropout_prob", default=0.1),
        "attention_dropout": settings.take("attention_probs_dropout_prob", default=0.0),
        "epsilon": settings.take("layer_norm_eps", default=1e-12),
        "num_segments": settings.take("type_vocab_size", default=1),
        "max_length": settings.take("max_position_embeddings"),
        "pooler": "tanh" if head == "labels" else None,
    }
    is_of_authors = any(name.startswith(OF_AUTHORS) for name in TensorFiles(folder).shapes)
    prefix = OF_AUTHORS if is_of_authors else "gte."
    block, embeddings = prefix + "encoder.layer.{}.", prefix + "embeddings."
    gated = block + "mlp.up_gate_proj"
    table = {
        "embedding.tokens": embeddings + "word_embeddings.weight",
        "embedding.norm": embeddings + "LayerNorm",
        **joint_projections(block + "attention.qkv_proj", size),
        "blocks.{}.attention.output_projection": block + "attention.o_proj",
        "blocks.{}.attention_norm": block + "attn_ln",
        "blocks.{}.feed_forward.inner": Part(gated, -1, 0, hidden),
        "blocks.{}.feed_forward.gate": Part(gated, -1, hidden, None),
        "blocks.{}.feed_forward.outer": block + "mlp.down_proj",
        "blocks.{}.feed_forward_norm": block + "mlp_ln",
    }
    if options["num_segments"]:
        table["embedding.segments"] = embeddings + "token_type_embeddings.weight"
    heads = {
        "labels": {"pooler": prefix + "pooler.dense", "output_layer": "classifier"},
        "tags": {"output_layer": "classifier"},
        "masked": {
            "transform": "lm_head.dense",
            "transform_norm": "lm_head.norm",
            "output_bias": "lm_head.decoder.bias",
        },
        "embedding": {},
    }
    tied = {"lm_head.decoder.weight": table["embedding.tokens"]}
    unused = (r"((new|gte)\.)?pooler\.dense\.(weight|bias)",)
    return encoder_plan(settings, folder, head, options, heads, Names(table, prefix, tied, unused))
