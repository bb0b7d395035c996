"""The languages that Whisper, M2M100 and mBART know."""

_CODES = """
af afrikaans, am amharic, ar arabic, as assamese, az azerbaijani, ba bashkir, be belarusian,
bg bulgarian, bn bengali, bo tibetan, br breton, bs bosnian, ca catalan, cs czech, cy welsh,
da danish, de german, el greek, en english, es spanish, et estonian, eu basque, fa persian,
fi finnish, fo faroese, fr french, gl galician, gu gujarati, ha hausa, haw hawaiian, he hebrew,
hi hindi, hr croatian, ht haitian creole, hu hungarian, hy armenian, id indonesian, is icelandic,
it italian, ja japanese, jw javanese, ka georgian, kk kazakh, km khmer, kn kannada, ko korean,
la latin, lb luxembourgish, ln lingala, lo lao, lt lithuanian, lv latvian, mg malagasy, mi maori,
mk macedonian, ml malayalam, mn mongolian, mr marathi, ms malay, mt maltese, my myanmar,
ne nepali, nl dutch, nn nynorsk, no norwegian, oc occitan, pa punjabi, pl polish, ps pashto,
pt portuguese, ro romanian, ru russian, sa sanskrit, sd sindhi, si sinhala, sk slovak,
sl slovenian, sn shona, so somali, sq albanian, sr serbian, su sundanese, sv swedish, sw swahili,
ta tamil, te telugu, tg tajik, th thai, tk turkmen, tl tagalog, tr turkish, tt tatar,
uk ukrainian, ur urdu, uz uzbek, vi vietnamese, yi yiddish, yo yoruba, yue cantonese, zh chinese,
ca valencian, es castilian, ht haitian, lb letzeburgesch, my burmese, nl flemish, pa panjabi,
ps pushto, ro moldavian, ro moldovan, si sinhalese, zh mandarin
"""
# The codes of M2M100 and of its WMT21 models, in the order of their tokens.
_OF_M2M100 = {
    "m2m100": """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha
    he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne
    nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo
    xh yi yo zh zu
    """,
    "wmt21": "en ha is ja cs ru zh de",
}
# The tokens of mBART, of which it has the first 25, and of mBART-50, in their order.
_OF_MBART_50 = """
    ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV
    my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID
    ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA
    ur_PK xh_ZA gl_ES sl_SI
"""
OF_MBART = {"MBart": _OF_MBART_50.split()[:25], "MBart50": _OF_MBART_50.split()}
OF_M2M100 = {name: codes.split() for name, codes in _OF_M2M100.items()}
CODES = {
    name: code for code, _, name in (each.strip().partition(" ") for each in _CODES.split(","))
}


def code_of(language):
    """Returns the code of a language, given its name, code or token.

    Example:

    >>> [code_of(language) for language in ("German", "de", "<|de|>")]
    ['de', 'de', 'de']
    """
    language = language.lower().removeprefix("<|").removesuffix("|>")
    return CODES.get(language, language)
