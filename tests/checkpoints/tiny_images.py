"""Tiny checkpoints of models of images and texts, as those of `tiny`, and images."""

import numpy as np
import PIL.Image
import torch
import transformers

from tests.checkpoints.tiny import GPT2, TEXTS, VIT, random_model, sentence_pieces, tokenizer


def photos():
    """Returns three smooth pictures of different sizes."""
    rng = np.random.default_rng(0)
    sizes = [(48, 36), (20, 33), (16, 16)]
    coarse = [PIL.Image.fromarray(rng.integers(0, 256, (3, 4, 3), dtype="uint8")) for _ in sizes]
    return [
        each.resize(size, PIL.Image.Resampling.BICUBIC)
        for each, size in zip(coarse, sizes, strict=True)
    ]


def save_clip(folder, length):
    """Like `save`, for a CLIP with texts of up to `length` tokens; also its image processor."""
    pieces = tokenizer("CLIPTokenizer")
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    texts = {"hidden_size": 16, "vocab_size": len(pieces), "max_position_embeddings": length}
    ends = {"bos_token_id": pieces.bos_token_id, "eos_token_id": pieces.eos_token_id}
    pictures = {"hidden_size": 20, "image_size": 16, "patch_size": 4}
    config = transformers.CLIPConfig(
        text_config={**sizes, **texts, **ends, "pad_token_id": pieces.pad_token_id},
        vision_config={**sizes, **pictures},
        projection_dim=12,
    )
    model = random_model(transformers.CLIPModel, config)
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}
    )
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor


def save_siglip(folder, length, image_size=16, name="SiglipTokenizer"):
    """Like `save`, for a SigLIP with texts of `length` tokens; also its image processor.

    As in the files of Google, the tokenizer returns no masks, since the model uses none.
    """
    if name != "SiglipTokenizer":
        pieces = tokenizer(name)
    else:
        ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
        (folder / "spiece.model").write_bytes(sentence_pieces(TEXTS, **ids))
        flags = {"model_max_length": length, "model_input_names": ["input_ids"]}
        pieces = transformers.SiglipTokenizer(str(folder / "spiece.model"), **flags)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    texts = {"hidden_size": 16, "vocab_size": len(pieces), "max_position_embeddings": length}
    pictures = {"hidden_size": 20, "image_size": image_size, "patch_size": 5}
    config = transformers.SiglipConfig(
        text_config={**sizes, **texts, "projection_size": 20},
        vision_config={**sizes, **pictures},
    )
    model = random_model(transformers.SiglipModel, config)
    with torch.no_grad():
        model.logit_scale.fill_(3.0)
        model.logit_bias.fill_(-1.5)
    square = {"height": image_size, "width": image_size}
    processor = transformers.SiglipImageProcessor(size=square)
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor


def save_blip(folder, kind="ForConditionalGeneration", **texts):
    """Like `save`, for a BLIP; also its image processor.

    As in the files of Salesforce, the tokenizer does not know the token that begins a caption.

    Args:
        folder: Folder for the checkpoint.
        kind: What the class does.
        **texts: Further settings of the decoder.
    """
    pieces = tokenizer("BertTokenizer")
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    ids = {"bos_token_id": len(pieces), "sep_token_id": pieces.sep_token_id, "pad_token_id": 0}
    config = transformers.BlipConfig(
        text_config={
            **sizes,
            **ids,
            "hidden_size": 16,
            "vocab_size": len(pieces) + 2,
            "max_position_embeddings": 40,
            **texts,
        },
        vision_config={**sizes, "hidden_size": 20, "image_size": 16, "patch_size": 4},
    )
    model = random_model(getattr(transformers, f"Blip{kind}"), config)
    if kind == "ForConditionalGeneration":
        with torch.no_grad():  # else all captions repeat one token without end
            decoder = model.text_decoder
            model.vision_model.embeddings.patch_embedding.weight.mul_(3.0)
            decoder.bert.embeddings.position_embeddings.weight.mul_(2.0)
            for layer in decoder.bert.encoder.layer:
                layer.crossattention.output.dense.weight.mul_(8.0)
            # Padding and start tokens are never generated here.
            decoder.cls.predictions.bias[[0, len(pieces), len(pieces) + 1]] = -9.0
            decoder.cls.predictions.bias[pieces.sep_token_id] += 2.0
    processor = transformers.BlipImageProcessorPil(size={"height": 16, "width": 16})
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor


def save_vision_encoder_decoder(
    folder, kind="TrOCR", encoder="ViT", pieces=None, ending=3.0, **decoder
):
    """Like `save`, for a vision encoder and a decoder of texts; also its image processor.

    Args:
        folder: Folder for the checkpoint.
        kind: `"TrOCR"` or `"GPT2"`, the decoder.
        encoder: `"ViT"` or `"DeiT"`.
        pieces: The name of a tokenizer; that of RoBERTa or GPT-2 by default.
        ending: How likely texts are to end.
        **decoder: Further settings of the decoder.
    """
    is_trocr = kind == "TrOCR"
    pieces = tokenizer(pieces or ("RobertaTokenizer" if is_trocr else "GPT2Tokenizer"))
    sizes = {
        "d_model": 16,
        "decoder_layers": 2,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 40,
        "cross_attention_hidden_size": 20,
    }
    ids = {f"{role}_token_id": getattr(pieces, f"{role}_token_id") for role in ("bos", "eos")}
    ids["pad_token_id"] = pieces.pad_token_id if is_trocr else pieces.eos_token_id
    ids["decoder_start_token_id"] = pieces.eos_token_id
    words = getattr(transformers, f"{kind}Config")(
        **{**(sizes if is_trocr else GPT2), **ids, "vocab_size": len(pieces), **decoder}
    )
    eyes = {**VIT, "hidden_size": 20, "qkv_bias": encoder == "DeiT"}
    eyes = getattr(transformers, f"{encoder}Config")(**eyes)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        eyes, words, **ids
    )
    model = random_model(transformers.VisionEncoderDecoderModel, config)
    with torch.no_grad():  # else all texts repeat one token without end
        model.encoder.embeddings.patch_embeddings.projection.weight.mul_(3.0)
        stack = model.decoder.model.decoder if is_trocr else model.decoder.transformer
        for layer in stack.layers if is_trocr else stack.h:
            cross = layer.encoder_attn.out_proj if is_trocr else layer.crossattention.c_proj
            cross.weight.mul_(8.0)
        table = model.decoder.get_output_embeddings().weight
        bias = (stack.layers[-1].final_layer_norm if is_trocr else stack.ln_f).bias
        bias += ending * table[ids["eos_token_id"]]
        if is_trocr:  # which never generates padding here
            bias -= table[ids["pad_token_id"]]
    model.generation_config.no_repeat_ngram_size = 2
    processor = transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})
    for part in (model, pieces, processor):
        part.save_pretrained(folder)
    return model, pieces, processor
