"""The definition of tokenizers like BERT's."""


def bert_definition(
    vocabulary,
    start,
    end,
    unknown,
    lowercase,
    strip_accents=None,
    handle_chinese_chars=True,
    processor="BertProcessing",
):
    """Returns a definition without added tokens, as in `tokenizer.json`.

    Args:
        vocabulary: Dictionary from pieces to ids.
        start, end: Tokens around a text.
        unknown: Token of unknown words.
        lowercase, strip_accents, handle_chinese_chars: Options of the normalizer.
        processor: `"BertProcessing"` or `"RobertaProcessing"`.
    """
    return {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": handle_chinese_chars,
            "strip_accents": strip_accents,
            "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
        "post_processor": {
            "type": processor,
            "cls": [start, vocabulary[start]],
            "sep": [end, vocabulary[end]],
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    }
