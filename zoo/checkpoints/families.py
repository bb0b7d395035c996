"""The families of checkpoints by the `model_type` of their configs."""

import importlib

FAMILIES = {
    "albert": "zoo.checkpoints.albert",
    "audio-spectrogram-transformer": "zoo.checkpoints.spectrogram_transformer",
    "bart": "zoo.checkpoints.bart",
    "bert": "zoo.checkpoints.bert",
    "blip": "zoo.checkpoints.blip",
    "bloom": "zoo.checkpoints.bloom",
    "camembert": "zoo.checkpoints.roberta",
    "clip": "zoo.checkpoints.clip",
    "deberta-v2": "zoo.checkpoints.deberta",
    "deit": "zoo.checkpoints.vit",
    "dinov2": "zoo.checkpoints.dinov2",
    "dinov2_with_registers": "zoo.checkpoints.dinov2",
    "dinov3_vit": "zoo.checkpoints.dinov3",
    "distilbert": "zoo.checkpoints.distilbert",
    "electra": "zoo.checkpoints.electra",
    "esm": "zoo.checkpoints.esm",
    "gemma": "zoo.checkpoints.gemma",
    "gemma2": "zoo.checkpoints.gemma",
    "gemma3_text": "zoo.checkpoints.gemma",
    "gpt2": "zoo.checkpoints.gpt2",
    "gpt_bigcode": "zoo.checkpoints.gpt_bigcode",
    "gpt_neo": "zoo.checkpoints.gpt_neo",
    "gpt_neox": "zoo.checkpoints.gpt_neox",
    "granite": "zoo.checkpoints.granite",
    "gte": "zoo.checkpoints.gte",
    "hubert": "zoo.checkpoints.wav2vec2",
    "jina_embeddings_v3": "zoo.checkpoints.jina_embeddings",
    "llama": "zoo.checkpoints.llama",
    "longformer": "zoo.checkpoints.longformer",
    "m2m_100": "zoo.checkpoints.m2m_100",
    "marian": "zoo.checkpoints.marian",
    "mbart": "zoo.checkpoints.mbart",
    "mistral": "zoo.checkpoints.llama",
    "modernbert": "zoo.checkpoints.modernbert",
    "mpnet": "zoo.checkpoints.mpnet",
    "mt5": "zoo.checkpoints.t5",
    "nomic_bert": "zoo.checkpoints.nomic_bert",
    "olmo2": "zoo.checkpoints.olmo",
    "olmo3": "zoo.checkpoints.olmo",
    "opt": "zoo.checkpoints.opt",
    "pegasus": "zoo.checkpoints.pegasus",
    "phi": "zoo.checkpoints.phi",
    "phi3": "zoo.checkpoints.phi3",
    "qwen2": "zoo.checkpoints.llama",
    "qwen3": "zoo.checkpoints.llama",
    "roberta": "zoo.checkpoints.roberta",
    "siglip": "zoo.checkpoints.siglip",
    "smollm3": "zoo.checkpoints.llama",
    "stablelm": "zoo.checkpoints.stablelm",
    "starcoder2": "zoo.checkpoints.starcoder2",
    "swin": "zoo.checkpoints.swin",
    "t5": "zoo.checkpoints.t5",
    "umt5": "zoo.checkpoints.t5",
    "vision-encoder-decoder": "zoo.checkpoints.vision_encoder_decoder",
    "vit": "zoo.checkpoints.vit",
    "wav2vec2": "zoo.checkpoints.wav2vec2",
    "whisper": "zoo.checkpoints.whisper",
    "xlm-roberta": "zoo.checkpoints.roberta",
}


def family_of(settings):
    """Returns the module of a family.

    Its `plan(settings, folder)` returns a `Plan`. Where the tokenizer is not the usual one, its
    `tokenizer(folder, size)` reads it; for a model of many languages, it also
    takes `source_language` and `target_language`.

    Args:
        settings: `Settings` of a checkpoint.

    Raises:
        ValueError: If the family is not implemented.
    """
    if settings.model_type not in FAMILIES:
        raise ValueError(
            f"{settings.path} is the config of a {settings.model_type!r}, which is not implemented."
            f" Implemented: {', '.join(sorted(FAMILIES))}."
        )
    return importlib.import_module(FAMILIES[settings.model_type])
