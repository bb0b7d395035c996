"""A model of images or sounds is made only with a reader that makes its inputs."""

import pytest

import zoo
from zoo.catalog import ARCHITECTURES

READERS = {
    "ImageReader": zoo.ImageReader(size=16, channels=1),
    "SoundReader": zoo.SoundReader(rate=8000, bands=16),
    "SpectrogramReader": zoo.SpectrogramReader(bands=16, frames=32),
    "SpeechReader": zoo.SpeechReader(bands=16, seconds=1.0),
    "WaveReader": zoo.WaveReader(),
}
LAYERS = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 16}
WAVES = {**LAYERS, "filters": (4,), "kernel_sizes": (10,), "strides": (5,), "position_groups": 2}
SWIN = {"num_layers": (1,), "num_heads": (1,), "size": 4, "window": 2}
PICTURES = {**LAYERS, "image": LAYERS}
TOWERS = {"text": LAYERS, "image": LAYERS, "positions": 4, "patch_size": 8}
CASES = {
    "blip": PICTURES,
    "clip": TOWERS,
    "conformer": {**LAYERS, "kernel_size": 3},
    "conformer_ctc": {**LAYERS, "kernel_size": 3},
    "siglip": TOWERS,
    "spectrogram_transformer": LAYERS,
    "swin": SWIN,
    "swin_embedding": SWIN,
    "vision_encoder_decoder": PICTURES,
    "vit": LAYERS,
    "vit_embedding": LAYERS,
    "wav2vec2": WAVES,
    "wav2vec2_ctc": WAVES,
    "whisper": LAYERS,
}


def test_every_model_with_a_reader_is_tested():
    with_reader = {name for name, each in ARCHITECTURES.items() if "reader" in each.needs}
    assert {*CASES} == {*with_reader, "clip"}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_a_reader_of_another_kind_is_refused(name):
    needs = ARCHITECTURES[name].needs
    right = needs.get("reader", "zoo.ImageReader()").removeprefix("zoo.").partition("(")[0]
    options = {"labels": ["one", "another"]} if "labels" in needs else {}
    if "tokenizer" in needs:
        options["tokenizer"] = zoo.ByteBPETokenizer([])
    wrong = {*READERS} - {right}
    if right == "SoundReader":  # these make frames as well
        wrong -= {"SpectrogramReader", "SpeechReader"}
    for kind in sorted(wrong):
        with pytest.raises(ValueError, match=rf"zoo\.{right}.*Received: reader={kind}\("):
            zoo.load(name, weights=None, reader=READERS[kind], **options, **CASES[name])
