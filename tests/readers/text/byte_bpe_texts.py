"""Texts to train and to try a byte-level BPE, and what the `tokenizers` library makes of them."""

import random

from zoo.readers.text.pieces import BYTE_ALPHABET

TRAINING_TEXTS = [
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
    "Two young, white males are outside near many bushes; it's 12:45, or 1,000 km away!",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche (naïve Größe).",
    "Несколько мужчин в касках управляют приводом.  ===== ----- aaaa aaaaaaa \t\n\n x",
    "नमस्ते दुनिया 你好世界 こんにちは ❤️ 👩‍👩‍👧 cafe\u0301",
] * 3

TRICKY_TEXTS = [
    "",
    " ",
    "  two  spaces   three",
    " leading and trailing ",
    "tabs\tand\r\nnew\n\n\nlines\x0b\x0c",
    "no\u00a0break\u2003em\u3000wide\u0085next\u2028line",
    "nul\x00inside\x00\x00 and \x01\x1f\x7f controls",
    "a" * 33 + " " + "=" * 34 + " " + "ab" * 20,
    "1234567890 ½ ² ٣ Ⅷ 3.14e-10 1️⃣",
    "don't can't l'été O'Neill state-of-the-art e.g. (yes)",
    "cafe\u0301 a\u0300\u0301\u0302b \u0301alone 1\u0301 नमस्ते",
    "❤️ 👩‍👩‍👧‍👦 🇩🇪 👍🏽 x👍y",
    "\ufeffbyte order mark, \ufffd replaced, \ufffe \uffff \U0010ffff",
    "<pad> <start> <end> ▁ Ġ \\1 \\0",
]


def random_texts(count, characters, seed):
    """Texts that mix random characters with parts of words that the tokenizer knows."""
    generator = random.Random(seed)
    known = "".join(TRAINING_TEXTS)
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(generator.randrange(12)):
            start, length = generator.randrange(len(known)), generator.randrange(9)
            parts.append(known[start : start + length])
            parts.append("".join(generator.choices(characters, k=generator.randrange(4))))
        texts.append("".join(parts))
    return texts


def every_character():
    return [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def library_ids(tokenizer, texts):
    return [encoding.ids for encoding in tokenizer.to_library().encode_batch(texts)]


def in_byte_alphabet(word):
    return "".join(BYTE_ALPHABET[byte] for byte in word)
