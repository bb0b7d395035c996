"""Sounds of all formats and rates, spectrograms against float64 NumPy and torch, broken files."""

import struct

import numpy as np
import pytest
import tensorflow as tf
from scipy.io import wavfile

from zoo.readers import audio
from zoo.readers.audio import read_sounds, resample, sound_bytes
from zoo.readers.log_mel import log_mel
from zoo.readers.sound_reader import SoundReader
from zoo.readers.wav import read_wav, write_wav

RATE = 8000
WAVE = 0.3 * np.sin(np.arange(1600) * 0.3) + 0.05 * np.random.default_rng(0).normal(size=1600)
WAVE = WAVE.astype("float32")
SOUND = write_wav(WAVE, RATE)


def file_of(samples, rate=RATE):
    """Returns the bytes of a WAV file that scipy writes."""
    import io

    file = io.BytesIO()
    wavfile.write(file, rate, samples)
    return file.getvalue()


def of_24_bits():
    numbers = np.round(WAVE * 2**23).astype("<i4")
    data = numbers.view("uint8").reshape(-1, 4)[:, :3].tobytes()
    kind = struct.pack("<HHIIHH", 0xFFFE, 1, RATE, 3 * RATE, 3, 24)
    # The extensible format, after a chunk of odd length with a byte of padding.
    longer = kind + struct.pack("<HHIH", 22, 24, 4, 1) + bytes(14)
    chunks = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    chunks += b"fmt " + struct.pack("<I", 40) + longer + b"data" + struct.pack("<I", len(data))
    return b"RIFF" + struct.pack("<I", len(chunks) + len(data) + 4) + b"WAVE" + chunks + data


FILES = {
    "8 bits": (file_of(np.round(WAVE * 127 + 128).astype("uint8")), 1 / 64),
    "16 bits": (file_of(np.round(WAVE * 32767).astype("int16")), 1e-4),
    "24 bits": (of_24_bits(), 1e-6),
    "32 bits": (file_of(np.round(WAVE.astype("float64") * 2**31).astype("int32")), 1e-6),
    "floats": (file_of(WAVE), 0.0),
    "doubles": (file_of(WAVE.astype("float64")), 0.0),
    "stereo": (file_of(np.stack([WAVE + 0.1, WAVE - 0.1], axis=1)), 1e-6),
    "of unknown length": (SOUND[:40] + b"\xff\xff\xff\xff" + SOUND[44:], 0.0),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_all_formats_are_read(name):
    content, tolerance = FILES[name]
    samples, rate = read_wav(content)
    assert int(rate) == RATE
    np.testing.assert_allclose(samples, WAVE, atol=tolerance)


def header(**changes):
    """Returns a WAV file with some numbers of its format changed."""
    places = {"kind": (20, "<H"), "channels": (22, "<H"), "rate": (24, "<I"), "bits": (34, "<H")}
    content = bytearray(SOUND)
    for name, value in changes.items():
        place, form = places[name]
        struct.pack_into(form, content, place, value)
    return bytes(content)


BROKEN = {
    "nothing": (b"", "is empty"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(60), "does not begin as a WAV file does"),
    "a beginning": (SOUND[:6], "does not begin"),
    "no data": (SOUND[:36], "no format chunk before a data chunk"),
    "half of it": (SOUND[:3000], "ends before its data do"),
    "no samples": (SOUND[:40] + bytes(4), "holds no sound"),
    "another codec": (header(kind=7, bits=8), "must be PCM of 8, 16"),
    "no channels": (header(channels=0), "no channels"),
    "a wild rate": (header(rate=2**31 + 5), "rate is not from"),
    "many channels of many bits": (header(channels=65535, bits=65535), "cannot be read as a sound"),
    "no numbers": (write_wav(np.full(9, np.nan, "float32"), RATE), "not all finite"),
    "infinite power": (write_wav(np.full(999, 1e30, "float32"), RATE), "finite, and from -1 to 1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_named(name, tmp_path):
    content, message = BROKEN[name]
    path = tmp_path / "sound.wav"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"(?s)The file '.*sound.wav'.*{message}"):
        sound_bytes(path)


def test_broken_files_do_not_fail_the_others():
    compiled = tf.function(
        lambda requests: read_sounds(requests, RATE, 1),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    contents = [content for content, _ in BROKEN.values()]
    long = write_wav(np.zeros(2 * RATE, "int16"), RATE)
    waves, lengths = compiled(tf.constant([SOUND, *contents, long, SOUND[:-400]], tf.string))
    assert lengths.numpy().tolist() == [1600] + [0] * (len(contents) + 2)
    np.testing.assert_array_equal(waves[0], WAVE)
    np.testing.assert_array_equal(waves[1:], 0.0)
    waves, lengths = compiled(tf.constant([], tf.string))
    assert waves.shape[0] == lengths.shape[0] == 0


def test_what_people_have_becomes_a_file(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(SOUND)
    assert sound_bytes(path) == sound_bytes(str(path)) == sound_bytes(bytearray(SOUND)) == SOUND
    assert sound_bytes((WAVE, RATE)) == SOUND
    assert sound_bytes((tf.constant(WAVE), np.int64(RATE))) == SOUND
    steady = np.stack([np.full(9, 16384), np.zeros(9)], axis=1).astype("int16")
    samples, rate = read_wav(sound_bytes((steady, 44_100)))
    assert (samples.numpy().tolist(), int(rate)) == ([0.25] * 9, 44_100)


@pytest.mark.parametrize(
    ("sound", "error", "message"),
    [
        ("nowhere.wav", FileNotFoundError, "no sound 'nowhere.wav'. A str is the path of a file"),
        (WAVE, TypeError, r"shape \(1600,\) without its rate"),
        (7, TypeError, "Received: 7 of type int"),
        ((WAVE, 44.1), ValueError, "an integer from 1000 to 768000.*44.1"),
        ((WAVE * 100, RATE), ValueError, "floats must hold numbers from -1 to 1.*32768"),
        ((WAVE.astype("int64"), RATE), ValueError, "int16, or of floats.*int64"),
        ((np.zeros((2, 1600)), RATE), ValueError, r"\(samples, channels\).*shape \(2, 1600\)"),
        ((np.zeros(0), RATE), ValueError, r"shape \(0,\)"),
    ],
)
def test_what_is_no_sound_is_named(sound, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        sound_bytes(sound)


@pytest.mark.parametrize(("old", "new"), [(44_100, 8000), (8000, 16_000), (11_025, 8000)])
def test_resampling_equals_its_sum(old, new):
    """What torchaudio computes, from the formula in float64."""
    wave, ratio = WAVE[:300].astype("float64"), old / new
    sharpness = 0.99 * min(1.0, 1.0 / ratio)
    expected = np.zeros(int(np.ceil(len(wave) / ratio)))
    for place in range(len(expected)):
        x = sharpness * (np.arange(len(wave)) - place * ratio)
        window = np.where(np.abs(x) < 6, np.cos(np.pi * x / 12) ** 2, 0.0)
        expected[place] = sharpness * (wave * np.sinc(x) * window).sum()
    found = resample(tf.constant(WAVE[:300]), old, new)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("taps", [1, 999])
def test_resampling_in_parts_is_resampling(taps, monkeypatch):
    """The taps of all samples at once, of 30 seconds at 192 kHz, would take a gigabyte."""
    expected = resample(tf.constant(WAVE), 3, 2)
    monkeypatch.setattr(audio, "TAPS_AT_ONCE", taps)
    np.testing.assert_array_equal(resample(tf.constant(WAVE), 3, 2), expected)


def test_resampling_keeps_tones_that_both_rates_can_tell():
    for hertz, loudness in ((500, 1.0), (3000, 1.0), (6000, 0.0)):
        tone = np.sin(2 * np.pi * hertz * np.arange(4410) / 44_100).astype("float32")
        found = resample(tf.constant(tone), 44_100, RATE).numpy()
        expected = loudness * np.sin(2 * np.pi * hertz * np.arange(len(found)) / RATE)
        np.testing.assert_allclose(found[40:-40], expected[40:-40], atol=2e-2)


@pytest.mark.parametrize(
    ("rate", "bands", "window", "hop"), [(8000, 40, 200, 80), (16000, 80, 400, 160)]
)
def test_spectrogram_equals_that_of_torch(rate, bands, window, hop):
    """`torch.stft`, and the bands of librosa and torchaudio from their definition in hertz."""
    import torch

    size = {200: 256, 400: 512}[window]
    spectrum = torch.stft(
        torch.from_numpy(WAVE.astype("float64")),
        size,
        hop,
        window,
        torch.hann_window(window, dtype=torch.float64),
        pad_mode="constant",
        return_complex=True,
    )
    mels = np.linspace(0.0, 2595 * np.log10(1 + rate / 1400), bands + 2)
    edges = 700 * (10 ** (mels / 2595) - 1)
    power = np.abs(spectrum.numpy()) ** 2
    expected = np.zeros((power.shape[1], bands))
    for band, place in np.ndindex(bands, size // 2 + 1):
        low, middle, high = edges[band : band + 3]
        hertz = place * rate / size
        share = min((hertz - low) / (middle - low), (high - hertz) / (high - middle))
        expected[:, band] += max(share, 0.0) * power[place]
    found = log_mel(WAVE[None], rate, bands, window, hop)[0]
    np.testing.assert_allclose(found, np.log(np.maximum(expected, 1e-10)), atol=1e-3)


def test_spectrograms_are_normalized_each_by_itself():
    reader = SoundReader(rate=RATE, bands=20)
    requests = [SOUND, write_wav(0.01 * WAVE[:800], RATE), b"none"]
    sounds, is_sound = reader.read(requests)
    assert is_sound.numpy().tolist() == [True, True, False]
    assert sounds["lengths"].numpy().tolist() == [21, 11, 0]
    for place, count in enumerate((21, 11)):
        frames = sounds["frames"][place].numpy()
        np.testing.assert_allclose(frames[:count].mean(), 0.0, atol=1e-4)
        np.testing.assert_allclose(frames[:count].std(), 1.0, atol=1e-3)
        np.testing.assert_array_equal(frames[count:], 0.0)
    np.testing.assert_array_equal(sounds["frames"][2], 0.0)
    alone, _ = reader.read(requests[1:2])
    np.testing.assert_allclose(sounds["frames"][1, :11], alone["frames"][0], atol=1e-4)


def test_what_is_soft_and_the_microphone_change_nothing():
    loud, soft = (WAVE[:1600] * loudness for loudness in (0.5, 1e-4))
    wave = np.concatenate([loud, soft, loud])
    reader = SoundReader(rate=RATE, bands=12, decibels=30.0, each_band=True)
    again = SoundReader.from_config(reader.get_config())
    frames, lengths = reader.log_mel(tf.constant(wave[None], "float32")), tf.constant([61])
    found = reader.normalized(frames, lengths)["frames"].numpy()
    power = np.exp(frames.numpy()[0, :61].astype("float64"))
    expected = 10.0 * np.log10(np.maximum(power, power.max() / 1000.0))
    expected -= expected.mean(axis=0)
    np.testing.assert_allclose(found[0, :61], expected / expected.std(), atol=1e-3)
    np.testing.assert_array_equal(found[0, 61:], 0.0)
    several = tf.pad(tf.concat([frames, frames * np.nan], 0), [[0, 0], [0, 5], [0, 0]])
    among_them = reader.normalized(several, tf.constant([61, 61]))["frames"]
    np.testing.assert_allclose(among_them[0, :61], found[0, :61], atol=1e-5)
    softer = tf.where(frames < tf.reduce_max(frames) - 8.0, -20.0, frames)
    np.testing.assert_array_equal(again.normalized(softer, lengths)["frames"], found)
    each = SoundReader(rate=RATE, bands=12, each_band=True)
    curved = frames + tf.linspace(-2.0, 2.0, 12)
    heard, plain = (each.normalized(those, lengths)["frames"] for those in (curved, frames))
    np.testing.assert_allclose(heard, plain, atol=1e-4)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([0.5, np.nan], "finite numbers from -1 to 1.*up to.*nan.*position.*1.*or pass int16"),
        ([0.5, -4000.0], "finite numbers from -1 to 1.*up to.*4000.*position.*1"),
    ],
)
def test_samples_of_a_data_set_are_numbers_as_in_lists(samples, message):
    reader = SoundReader(rate=RATE, bands=20)
    sounds = np.repeat(np.array(samples, "float32")[:, None], 400, axis=1)
    sounds[1, 1:] = 0.0
    dataset = tf.data.Dataset.from_tensor_slices((sounds, [0, 1]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(reader.batched(dataset, 2))
    assert len(list(reader.batched(dataset.take(1), 2))) == 1


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_samples_of_a_data_set_have_no_8_bits(dtype):
    dataset = tf.data.Dataset.from_tensor_slices((np.zeros((2, 400), dtype), [0, 1]))
    with pytest.raises(ValueError, match=f"must be 16-bit integers, or floats.*: {dtype}"):
        SoundReader(rate=RATE, bands=20).batched(dataset, 2)


def test_broken_files_of_a_data_set_are_told_with_their_positions():
    reader = SoundReader(rate=RATE, bands=20, seconds=0.5)
    short, long = (sound_bytes((np.zeros(count, "int16"), RATE)) for count in (80, RATE))
    dataset = tf.data.Dataset.from_tensor_slices(([short, long, b"none"], [0, 1, 2]))
    message = r"2\] \[of\] \[3\] .*longer than 0.5 seconds: leave them out.*position\] \[1\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(reader.batched(dataset, 3))


def test_one_sound_or_several():
    reader = SoundReader(rate=RATE, bands=20, seconds=0.5)
    assert reader.requests(SOUND) == reader.requests((WAVE, RATE)) == ([SOUND], True)
    assert reader.requests([SOUND, (WAVE, RATE)]) == ([SOUND, SOUND], False)
    with pytest.raises(TypeError, match="without its rate"):
        reader.requests(WAVE)
    with pytest.raises(ValueError, match="1.0 seconds long.* takes at most 0.5") as error:
        reader.requests([SOUND, (np.zeros(RATE), RATE)])
    assert "number 1 of 2 sounds" in error.value.__notes__[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "`rate` of SoundReader must be a positive integer"),
        ({"hop": -1.0}, "`hop` of SoundReader must be a number of seconds above 0"),
        ({"hop": 0.5}, "`hop` from a sample to the window"),
        ({"bands": 5000}, "`bands` up to 1024"),
        ({"seconds": 1e9}, "`seconds` up to 3600"),
        ({"decibels": 0.0}, "`decibels` of SoundReader must be a number above 0, or None"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        SoundReader(**options)
