"""Texts that tokenizers stumble over: scripts, code, emoji, controls, white space, broken UTF-8."""

import random
import unicodedata

PROSE = [
    "A man in a blue shirt is standing on a ladder, cleaning the windows of an unaffordable house.",
    "Ein Mann putzt ein großes Fenster; zwölf Äpfel übrig – »schön«, Straßenbahnhaltestelle!",
    "L'été dernier, le garçon naïf n'a pas mangé d'œufs; ça coûte 1 234,50 €.",
    "Несколько мужчин в касках управляют приводом. Ещё йогурт, съёмка и объём.",
    "Ο Σωκράτης ήταν φιλόσοφος, ΟΔΟΣ ΣΟΦΟΣ· «καλημέρα» κόσμε;",
    "नमस्ते दुनिया, यह एक छोटा वाक्य है। हिन्दी में क्षेत्र और ज्ञान।",
    "هذا رجلٌ يقرأ كتابًا في المكتبة؟ السَّلامُ عليكم ١٢٣",
    "השלום לכולם, זהו משפט קצר בעברית עם נִקּוּד.",
    "你好世界，这是一个很短的句子。台灣的天氣很熱！",
    "これは短い文です。カタカナとひらがな、ﾊﾝｶｸ、がぎぐげご。",
    "안녕하세요 세계, 이것은 짧은 문장입니다. 한국어 값",
    "สวัสดีชาวโลก นี่คือประโยคสั้น ๆ ภาษาไทย น้ำ",
    "Tiếng Việt có dấu: ệ ộ ữ ằ, phở bò và nước mắm ngon lắm.",
    "def f(x):\n    return x**2 + 3*x - 1  # it's O(1)\n\n\nfor (;i<=10; ++i) { a[i] += 0x1F; }",
    "❤️ 👩‍👩‍👧‍👦 🇩🇪 👍🏽 x👍y ☕️ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "don't can't I'LL we'Ve it'S she'd o'clock rock'n'roll DON'T 'tis they're",
]
TRICKY = [
    "",
    " ",
    "\n",
    "  two  spaces   three    four ",
    " leading and trailing ",
    "\t\n\x0b\x0c\r\n \u00a0\u2003\u3000\u0085\u2028\u2029\u200b",
    "tabs\tand\r\nnew\n\n\nlines\x0b\x0c end\r",
    "  \n  \n\n  a  \n b \r\n\r\n  c\n  ",
    "x \n\n y\t\tz\t a\u00a0\u00a0b \u3000 c",
    "nul\x00inside\x00\x00 and \x01\x1f\x7f\x80\x9f controls",
    "a" * 33 + " " + "=" * 34 + " " + "ab" * 20 + " aaaa aaaaaaa ..... ------",
    "a" * 100 + " " + "b" * 101 + " " + "ä" * 99 + "\u0301",
    "1234567890 ½ ² ٣ Ⅷ 3.14e-10 1,000,000 १२३४",
    "cafe\u0301 a\u0300\u0301\u0302b \u0301alone 1\u0301 q\u0323\u0307 q\u0307\u0323 \u1e9b\u0323",
    "ﬁ ﬀ ﬃ Å Ω ① ㍿ ﷺ ｆｕｌｌ ﾊﾞ ㌔ ½ … ™ ª ﬅ ẞ İ ı ſ ŉ ǰ",
    "\ufeffbyte order mark, \ufffd replaced, \ufffe \uffff \U0010ffff \ue000",
    "soft\u00adhyphen zero\u200bwidth\u200cjoin\u200der \u202eright \u2060word",
    "▁ ▁▁a Ġ Ċ <0x41> \\1 \\0 ## ##ing [ ] < > </w> a</w>",
    "ᄒ\u1161\u11ab ᄀ\u1161 가\u11a8 e\u0301\u0301 \u0344 \u0958 क\u093c",
    "http://example.com/a?b=c&d=%20 user@mail.org C:\\path\\file_name.txt #tag $5.00",
]
BROKEN = [
    b"\xed\xa0\x80",
    b"a\xed\xbf\xbfb",
    b"\xff\xfe x",
    b"\xc3",
    b"ok \xe4\xbd",
    b"\xf0\x9f\x98 z",
]
# Not what they were in the Unicode of `tokenizers`' BertNormalizer; newer characters aside.
_CHANGED = "\u166d\u1734\u1885\u1886"
_MODERN = "\U0001f600\U0001f9d1\u20ac\u2212\u2019\u201c\u2013\u00a0\u3000\n\t \r"


def hostile_texts(count, seed=0, tokens=()):
    """Returns a list of `str`: tricky ones first, then mixtures.

    Args:
        count: How many.
        seed: Same seed, same texts.
        tokens: Special tokens that occur in some texts.
    """
    random_ = random.Random(seed)
    characters = [
        chr(point)
        for point in range(0x30000)
        if not 0xD800 <= point < 0xE000
        and chr(point) not in _CHANGED
        and unicodedata.ucd_3_2_0.category(chr(point)) not in ("Cn", "Co")
    ]
    common = [c for c in characters if ord(c) < 0x3000]
    texts = [*PROSE, *TRICKY]
    texts += (
        [text.format(*tokens) for text in ("{0}", "a {0} b{0}{1}", " {1} {0}x")] if tokens else []
    )

    def part():
        kind = random_.random()
        prose = random_.choice(PROSE)
        start = random_.randrange(len(prose))
        if kind < 0.5:
            return prose[start : start + random_.randrange(40)]
        if kind < 0.6:
            return random_.choice(TRICKY)[: random_.randrange(1, 12)]
        if kind < 0.7:
            return "".join(random_.choices(" \n\t\r\u00a0 ", k=random_.randrange(1, 6)))
        if kind < 0.8:
            return "".join(random_.choices(common, k=random_.randrange(1, 5)))
        if kind < 0.9:
            return "".join(random_.choices(characters, k=random_.randrange(1, 4)))
        if kind < 0.93 and tokens:
            return random_.choice(tokens)
        return "".join(random_.choices(_MODERN + "aAbB'.,1", k=random_.randrange(1, 9)))

    while len(texts) < count:
        texts.append("".join(part() for _ in range(random_.randrange(1, 7))))
    return texts[:count]


def long_line(size=100_000, seed=0):
    """Returns one line of about so many bytes."""
    random_ = random.Random(seed)
    text = ""
    while len(text.encode()) < size:
        text += random_.choice(PROSE[:13]) + " "
    return text
