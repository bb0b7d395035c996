"""The `README.md` of presets, as the hub's own library reads it."""

import pathlib

import huggingface_hub
import pytest

import zoo
from zoo.storage.cards import read_card
from zoo.storage.readme import readme

SHIPPED = sorted(
    each.parent for each in pathlib.Path(zoo.__file__).parent.glob("presets/*/card.json")
)
QUALITY = {"BLEU, test split": 38.7, "perplexity": 4}


def read(text):
    """Returns the card as the hub validates it, without the network."""
    card = huggingface_hub.ModelCard(text, ignore_metadata_errors=False)
    assert card.data.to_dict()["library_name"] == "keras-attention-zoo"
    return card


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_the_readme_of_a_shipped_preset_is_that_of_its_card(folder):
    text, card = (folder / "README.md").read_text(encoding="utf-8"), read_card(folder)
    assert text == readme(card)
    data = read(text).data
    assert data.license == "apache-2.0"
    assert data.pipeline_tag is not None
    assert (data.language is None) == (card["architecture"] in ("clip", "vit"))
    found = {
        (each.metric_name, each.dataset_split, each.metric_value) for each in data.eval_results
    }
    expected = {(each["metric"], each["split"], each["value"]) for each in card["quality"]}
    assert found == expected


@pytest.fixture(scope="module")
def tiny():
    options = {"embedding_dim": 8, "encoder_units": 8, "decoder_units": 8}
    return zoo.load("luong_nmt", weights=None, tokenizer=zoo.ByteBPETokenizer([]), **options)


def test_save_to_preset_writes_one(tiny, tmp_path):
    told = {"name": "My pairs", "language": "en-de"}
    options = {"data": told, "quality": QUALITY, "license": "CC-BY-4.0", "limits": "Short: texts"}
    tiny.save_to_preset(tmp_path / "toy", description='A "toy": {x}', **options)
    card = read((tmp_path / "toy" / "README.md").read_text(encoding="utf-8"))
    assert (card.data.license, card.data.language) == ("cc-by-4.0", ["en", "de"])
    assert card.data.pipeline_tag == "translation"
    assert card.data.datasets == ["my-pairs"]
    assert {each.metric_name: each.metric_value for each in card.data.eval_results} == QUALITY
    assert {each.dataset_name for each in card.data.eval_results} == {"My pairs"}
    assert {each.metric_type for each in card.data.eval_results} == {"bleu", "perplexity"}
    assert 'A "toy": {x}, trained on My pairs.' in card.content
    assert "**Limits:** Short: texts" in card.content


def test_a_card_that_tells_little(tiny, tmp_path):
    tiny.save_to_preset(tmp_path / "toy", license="Ask: me # first")
    data = read((tmp_path / "toy" / "README.md").read_text(encoding="utf-8")).data.to_dict()
    assert (data["license"], data["license_name"]) == ("other", "Ask: me # first")
    assert data.keys().isdisjoint({"language", "datasets", "model-index"})


def test_data_may_have_a_name_in_any_script(tiny, tmp_path):
    options = {"data": "кошки и собаки", "quality": QUALITY, "license": " "}
    tiny.save_to_preset(tmp_path / "toy", **options)
    data = read((tmp_path / "toy" / "README.md").read_text(encoding="utf-8")).data
    assert {(each.dataset_name, each.dataset_type) for each in data.eval_results} == {
        ("кошки и собаки", "unknown")
    }
    assert data.to_dict().keys().isdisjoint({"datasets", "license"})
