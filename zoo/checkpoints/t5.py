"""T5 (Raffel et al. 2020), its version 1.1, and models of their structure, such as mT5 and ByT5."""

from zoo.checkpoints.activations import activation
from zoo.checkpoints.generation import sampler_of
from zoo.checkpoints.names import Names, Turned
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.tensor_files import TensorFiles
from zoo.readers.text.reading import read_tokenizer

_PARTS = {  # of an attention: the name of a layer here, and there
    "query_projection": "q",
    "key_projection": "k",
    "value_projection": "v",
    "output_projection": "o",
}
_ATTENTIONS = {
    "encoder": {"attention": "SelfAttention"},
    "decoder": {"self_attention": "SelfAttention", "cross_attention": "EncDecAttention"},
}
OUTPUT = "lm_head.weight"
_COPIES = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
# Older files have a bias of cross-attention that no version of T5 uses.
UNUSED = (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)
LONGEST_SOURCE = 512  # tokens that it was trained with
LONGEST_OF_BYTES = 1024  # as ByT5 was


def plan(settings, folder):
    kind = settings.model_type
    settings.require_class([f"{kind.upper()}ForConditionalGeneration"])
    settings.require(is_decoder=False, chunk_size_feed_forward=0)
    settings.ignore("n_positions", "is_gated_act", "dense_act_fn")  # as feed_forward_proj says
    settings.ignore("scalable_attention")  # of umT5, without an effect in transformers
    usual = "relu" if kind == "t5" else "gated-gelu"
    gate, _, name = settings.take("feed_forward_proj", default=usual).rpartition("-")
    if gate not in ("", "gated"):
        raise ValueError(f"{settings.path} says feed_forward_proj={gate}-{name}: not implemented.")
    dropout = settings.take("dropout_rate", default=0.1)
    tied = settings.take("tie_word_embeddings", default=True)
    scaled = settings.take("scale_decoder_outputs", default=tied and kind != "mt5")
    # Not from settings: since version 5 of transformers, they always say that weights are tied.
    is_tied = scaled or OUTPUT not in TensorFiles(folder).shapes
    reads_bytes = settings.take("tokenizer_class", default=None) == "ByT5Tokenizer"
    options = {
        "num_layers": settings.take("num_layers"),
        "decoder_layers": settings.take("num_decoder_layers", "num_layers"),
        "size": settings.take("d_model"),
        "num_heads": settings.take("num_heads"),
        "key_dim": settings.take("d_kv"),
        "hidden": settings.take("d_ff"),
        "activation": activation(settings, "gelu_new" if gate and name == "gelu" else name),
        "gated": bool(gate),
        "relative_buckets": settings.take("relative_attention_num_buckets", default=32),
        "relative_distance": settings.take("relative_attention_max_distance", default=128),
        "dropout": dropout,
        "attention_dropout": dropout,
        "hidden_dropout": dropout,
        "epsilon": settings.take("layer_norm_epsilon", default=1e-6),
        "shared_bias": kind != "umt5",
        "scaled_output": scaled,
        "tied": is_tied,
        "pad_id": settings.take("pad_token_id", default=0),
        "max_source_length": LONGEST_OF_BYTES if reads_bytes else LONGEST_SOURCE,
        "sampler": sampler_of(settings, folder, counts_start=True),
    }
    if settings.take("decoder_start_token_id", default=0) != options["pad_id"]:
        raise ValueError(
            f"{settings.path} begins answers with another token than that of padding, which is not "
            "implemented."
        )
    tied = dict.fromkeys((*_COPIES, *([OUTPUT] if is_tied else [])), "shared.weight")
    names = Names(_table(bool(gate), is_tied, options["shared_bias"]), "", tied, UNUSED)
    return Plan("t5", options, names, settings.take("vocab_size"))


def tokenizer(folder, size):
    """Returns the tokenizer; outputs begin with the padding token."""
    return read_tokenizer(folder, size=size, start="<pad>")


def _table(is_gated, is_tied, is_shared):
    table = {"embedding.table": "shared.weight"}
    if not is_tied:
        table["embedding.output_table"] = OUTPUT
    inner = {"inner": "wi_1", "gate": "wi_0"} if is_gated else {"inner": "wi"}
    for stack, attentions in _ATTENTIONS.items():
        block = f"{stack}.block.{{}}.layer"
        bias = f"{block}.0.SelfAttention.relative_attention_bias.weight"
        if is_shared:
            table[f"{stack}_bias.embeddings"] = Turned(bias.format(0))
        else:
            table[f"{stack}.{{}}.position.embeddings"] = Turned(bias)
        table[f"{stack}_norm"] = f"{stack}.final_layer_norm"
        for place, (ours, theirs) in enumerate(attentions.items()):
            table[f"{stack}.{{}}.{ours}_norm"] = f"{block}.{place}.layer_norm"
            for part, name in _PARTS.items():
                table[f"{stack}.{{}}.{ours}.{part}"] = f"{block}.{place}.{theirs}.{name}"
        place = len(attentions)
        table[f"{stack}.{{}}.feed_forward_norm"] = f"{block}.{place}.layer_norm"
        for part, name in (inner | {"outer": "wo"}).items():
            dense = f"{block}.{place}.DenseReluDense.{name}"
            table[f"{stack}.{{}}.feed_forward.{part}"] = dense
    return table
