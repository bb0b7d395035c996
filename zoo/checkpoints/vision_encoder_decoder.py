"""A Vision Transformer with a decoder of texts: TrOCR (Li et al. 2023), and ViT with GPT-2."""

from zoo.checkpoints import bart_blocks, gpt2, vit
from zoo.checkpoints.activations import activation
from zoo.checkpoints.generation import ignore_generation, sampler_of, settings_of
from zoo.checkpoints.names import Names, Part, with_output
from zoo.checkpoints.pictures import reader_of, side_of
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.settings import Settings
from zoo.readers.text.reading import read_tokenizer
from zoo.storage import CONFIG
from zoo.storage.json_files import read_named_json
from zoo.storage.kinds import LARGEST_CONFIG

CLASSES = ("VisionEncoderDecoderModel",)
ENCODERS = {"vit": 1, "deit": 2}  # number of tokens in front of the patches
OF_TROCR = "decoder.model.decoder"
OF_GPT2 = "decoder.transformer"
CROSS = {  # of a block of GPT-2
    "cross_attention_norm": "ln_cross_attn",
    "cross_attention.query_projection": "crossattention.q_attn",
    "cross_attention.output_projection": "crossattention.c_proj",
}
UNUSED = (
    r"encoder\.pooler\..*",
    r"decoder\.model\.decoder\.embed_positions\._float_tensor",  # buffers of older versions
    r"decoder\.transformer\.h\.\d+\.(attn|crossattention)\.(bias|masked_bias)",
)
FIRST_POSITION = 2  # of learned positions, as in BART
IDS = {  # of the decoder, if no file names them
    "trocr": {"decoder_start_token_id": 2, "eos_token_id": 2},
    "gpt2": {"bos_token_id": 50256, "eos_token_id": 50256},
}


def plan(settings, folder):
    settings.require_class(CLASSES)
    settings.ignore("tie_word_embeddings", "vocab_size")  # those of the decoder count
    eyes, words = (Settings(settings.path, settings.take(name)) for name in ("encoder", "decoder"))
    first = _of_kind(eyes, "encoder", ENCODERS)
    options_of_words, table_of_words, output = _of_kind(words, "decoder", DECODERS)
    image, image_size = _options_of_images(eyes), side_of(eyes, "image_size", 224)
    options = {
        **options_of_words(words),
        "output_bias": False,
        "tied": words.take("tie_word_embeddings", default=True),
        "pad_id": -1,
        "patch_size": side_of(eyes, "patch_size", 16),
        "image": image | ({"distillation": "token"} if first == 2 else {}),
        "reader": reader_of(settings, folder, image_size, eyes.take("num_channels", default=3)),
        "sampler": sampler_of(_with_decoder(folder), folder, counts_start=True),
    }
    table = _table_of_images(first) | table_of_words(options)
    if words.take("cross_attention_hidden_size", default=None) is None:
        options["projected"] = image["size"] != options["size"]
        table |= {"projection": "enc_to_dec_proj"} if options["projected"] else {}
    table, tied = with_output(table, output, options["tied"])
    size = words.take("vocab_size")
    for each in (settings, eyes, words):
        ignore_generation(each)
    for each in (eyes, words):
        each.require_all_seen()
    names = Names(table, "", tied, UNUSED, upright=OF_GPT2)
    return Plan("vision_encoder_decoder", options, names, size, of_tokenizer=("begin_id",))


def tokenizer(folder, size):
    """Returns the tokenizer. The settings name the tokens that begin and end a text by their ids,
    and other tokens than those that the tokenizer puts around texts.
    """
    config = _with_decoder(folder)
    of_file = settings_of(config, folder)

    def number(*names):
        found = of_file.take(*names, default=None)
        return config.take(*names) if found is None else found

    start, end = number("decoder_start_token_id", "bos_token_id"), number("eos_token_id")
    found = read_tokenizer(folder, size=size, start=start, end=end)
    single, _ = found.templates
    is_again = start != end and any(start in item.token_ids for item in single)
    found.begin_id = start if is_again else None  # as for a model fine-tuned on such texts
    return found


def _with_decoder(folder):
    """Returns the `Settings` of a model and, where it has none, of its decoder: as in transformers,
    either may tell how texts are generated.
    """
    path = folder / CONFIG
    config = read_named_json(path, LARGEST_CONFIG)
    decoder = config["decoder"]
    given = {name: value for name, value in config.items() if value is not None}
    return Settings(path, {**IDS[decoder["model_type"]], **decoder, **given})


def _of_kind(settings, part, known):
    """Returns what is known of a kind of encoder or decoder.

    Raises:
        ValueError: If nothing is.
    """
    kind = settings.take("model_type", default=None)
    if kind not in known:
        raise ValueError(
            f"{settings.path} has the {part} of a {kind!r}, which is not implemented. Implemented: "
            f"{', '.join(known)}."
        )
    settings.require(chunk_size_feed_forward=0)
    return known[kind]


def _options_of_images(settings):
    settings.require(is_decoder=False, add_cross_attention=False)
    settings.ignore("encoder_stride", "pooler_act", "pooler_output_size", "tie_word_embeddings")
    return {
        "num_layers": settings.take("num_hidden_layers", default=12),
        "size": settings.take("hidden_size", default=768),
        "num_heads": settings.take("num_attention_heads", default=12),
        "hidden": settings.take("intermediate_size", default=3072),
        "epsilon": settings.take("layer_norm_eps", default=1e-12),
        **vit.block_options(settings),
    }


def _table_of_images(first):
    table = vit.table_of("encoder", vit.BLOCK, first)
    if first == 2:
        table["distillation_token"] = "encoder.embeddings.distillation_token"
        table["distillation_place"] = Part(table["class_place"].name, 1, 1, 2)
    return {f"image_tower.{path}": rule for path, rule in table.items()}


def _options_of_trocr(settings):
    settings.ignore("add_cross_attention", "is_decoder")  # which it always has, and is
    settings.ignore("init_std", "decoder_layerdrop", "num_hidden_layers")
    size = settings.take("d_model", default=1024)
    is_learned = settings.take("use_learned_position_embeddings", default=True)
    options = {
        "num_layers": settings.take("decoder_layers", default=12),
        "size": size,
        "num_heads": settings.take("decoder_attention_heads", default=16),
        "hidden": settings.take("decoder_ffn_dim", default=4096),
        "activation": activation(settings, settings.take("activation_function", default="gelu")),
        "dropout": settings.take("dropout", default=0.1),
        "attention_dropout": settings.take("attention_dropout", default=0.0),
        "hidden_dropout": settings.take("activation_dropout", default=0.0),
        "scaled": settings.take("scale_embedding", default=False),
        "normalize_embedding": settings.take("layernorm_embedding", default=True),
        "max_length": settings.take("max_position_embeddings", default=512),
        "first_position": FIRST_POSITION,
    }
    if is_learned:
        return options | {"position": "learned"}
    pairs = size // 2
    return options | {
        "position": "sinusoidal",
        "first_position": settings.take("pad_token_id", default=1) + 1,
        "layout": "halves",
        # The largest wavelength is reached, where `SinusoidalPosition` ends one step before it.
        "max_wavelength": 10000.0 ** (pairs / (pairs - 1)),
    }


def _table_of_trocr(options):
    table = {
        path: f"decoder.{name}"
        for path, name in bart_blocks.table_of_blocks().items()
        if path.startswith("decoder.")
    }
    table["embedding.table"] = f"{OF_TROCR}.embed_tokens.weight"
    if options["position"] == "learned":
        table["embedding.place.embeddings"] = f"{OF_TROCR}.embed_positions.weight"
    if options["normalize_embedding"]:
        table["embedding.norm"] = f"{OF_TROCR}.layernorm_embedding"
    return table


def _options_of_gpt2(settings):
    settings.require(add_cross_attention=True)
    return gpt2.stack_options(settings) | {
        "normalize": "pre",
        "normalize_embedding": False,
        "max_length": settings.take("n_positions"),
    }


def _table_of_gpt2(options):
    block, size = f"{OF_GPT2}.h.{{}}", options["size"]
    of_block = {
        path.replace("attention", "self_attention"): f"{block}.{name}"
        for path, name in gpt2.BLOCK.items()
    }
    of_block |= {path: f"{block}.{name}" for path, name in CROSS.items()}
    parts = {
        "self_attention": gpt2.joint(f"{block}.attn.c_attn", gpt2.ROLES, size),
        "cross_attention": gpt2.joint(f"{block}.crossattention.c_attn", gpt2.ROLES[1:], size),
    }
    for attention, of_roles in parts.items():
        for role, part in of_roles.items():
            of_block[f"{attention}.{role}_projection"] = part
    table = {f"decoder.{{}}.{path}": rule for path, rule in of_block.items()}
    of_stack = {path.replace("norm", "decoder_norm"): x for path, x in gpt2.TABLE.items()}
    return table | {path: f"decoder.{name}" for path, name in of_stack.items()}


DECODERS = {
    "trocr": (_options_of_trocr, _table_of_trocr, "decoder.output_projection.weight"),
    "gpt2": (_options_of_gpt2, _table_of_gpt2, "decoder.lm_head.weight"),
}
