"""The names of the models of each task, for type checkers: `zoo.load` returns that task."""

from typing import Literal

AnswererName = Literal["text_encoder_span"]
CaptionerName = Literal[
    "blip",
    "show_attend_tell",
    "show_attend_tell_flickr8k",
    "show_attend_tell_hard_flickr8k",
    "vision_encoder_decoder",
]
ClassifierName = Literal[
    "bart_classifier",
    "conformer",
    "conformer_spoken_digit",
    "spectrogram_transformer",
    "swin",
    "text_encoder",
    "text_encoder_imdb",
    "transformer_lm_labels",
    "vit",
    "vit_mnist",
    "wav2vec2",
]
EmbedderName = Literal[
    "swin_embedding", "text_encoder_embedding", "transformer_lm_embedding", "vit_embedding"
]
MaskFillerName = Literal["text_encoder_masked", "text_encoder_masked_imdb"]
MatcherName = Literal["clip", "clip_flickr8k", "siglip"]
RecognizerName = Literal["conformer_ctc", "conformer_ctc_spoken_digit", "wav2vec2_ctc"]
ScorerName = Literal["text_encoder_score", "transformer_lm_score"]
TaggerName = Literal["text_encoder_tags"]
TextGeneratorName = Literal["transformer_lm", "transformer_lm_shakespeare"]
TextToTextName = Literal["bart", "pegasus", "t5"]
TranscriberName = Literal["whisper"]
TranslatorName = Literal[
    "bahdanau_nmt",
    "bahdanau_nmt_multi30k_en_de",
    "luong_nmt",
    "luong_nmt_multi30k_en_de",
    "mbart",
    "transformer_nmt",
    "transformer_nmt_multi30k_en_de",
    "transformer_nmt_tatoeba_en_de",
]
