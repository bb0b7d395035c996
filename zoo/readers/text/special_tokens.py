"""The special tokens of classes of transformers, by the names that files give them."""

BERT = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"}
BERT |= {"mask_token": "[MASK]"}
ROBERTA = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
ROBERTA |= {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
GPT2 = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
GPT_NEOX = {**GPT2, "pad_token": "<|padding|>"}
CLIP = dict.fromkeys(("eos_token", "pad_token", "unk_token"), "<|endoftext|>")
CLIP |= {"bos_token": "<|startoftext|>"}
QWEN2 = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
MPNET = {**ROBERTA, "unk_token": "[UNK]"}
M2M100 = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
PEGASUS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
PEGASUS |= {"mask_token": "<mask_2>"}
T5 = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
SIGLIP = {"eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>"}
GEMMA = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
ESM = {"cls_token": "<cls>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
ESM |= {"mask_token": "<mask>"}
USUAL = {  # of classes of transformers, unless files name others
    "Bert": BERT,
    "CLIP": CLIP,
    "Camembert": ROBERTA,
    "DebertaV2": BERT,
    "DistilBert": BERT,
    "Electra": BERT,
    "Esm": ESM,
    "GPT2": GPT2,
    "GPTNeoX": GPT_NEOX,
    "Gemma": GEMMA,
    "Llama": LLAMA,
    "M2M100": M2M100,
    "MBart": ROBERTA,
    "MBart50": ROBERTA,
    "MPNet": MPNET,
    "Nllb": ROBERTA,
    "Pegasus": PEGASUS,
    "Qwen2": QWEN2,
    "Roberta": ROBERTA,
    "Siglip": SIGLIP,
    "Siglip2": GEMMA,
    "T5": T5,
    "Whisper": GPT2,
    "XLMRoberta": ROBERTA,
}


def content_of(token):
    """Returns the text of a special token, which files give as a string or with its options."""
    return token["content"] if isinstance(token, dict) else token
