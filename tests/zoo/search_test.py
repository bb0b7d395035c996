"""Search of texts and images: the results against NumPy, vectors, ties, folders and the command."""

import pathlib

import click.testing
import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

import zoo
from tests.conftest import without_graphs
from zoo.cli import main
from zoo.readers.images import image_bytes
from zoo.tasks.searching import find

QUESTION = "Can I send it back?"
ANSWERS = ["We ship in a day.", "Can I send it?", "Yes, for 30 days.", "Call us.", "I sent it."]
TOWER = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32}


@pytest.fixture(scope="module")
def eager_module(request):
    with without_graphs(request.config):
        yield


@pytest.fixture(scope="module")
def model(eager_module):
    """An embedder of texts."""
    tokenizer = zoo.ByteBPETokenizer([])
    return zoo.load("text_encoder_embedding", weights=None, tokenizer=tokenizer, **TOWER)


@pytest.fixture(scope="module")
def embedder(eager_module):
    """An embedder of images."""
    reader = zoo.ImageReader(8)
    return zoo.load("vit_embedding", weights=None, reader=reader, patch_size=4, **TOWER)


@pytest.fixture(scope="module")
def matcher(eager_module):
    sizes = {"positions": 4, "patch_size": 4, "embedding_size": 8, "text": TOWER, "image": TOWER}
    tokenizer, reader = zoo.ByteBPETokenizer([]), zoo.ImageReader(8)
    return zoo.load("clip", weights=None, tokenizer=tokenizer, reader=reader, **sizes)


@pytest.fixture(scope="module")
def photos():
    generator = np.random.default_rng(0)
    return [generator.integers(0, 256, (9, 7, 3), dtype="uint8") for _ in range(6)]


@pytest.fixture(scope="module")
def folder(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for number, photo in enumerate(photos):
        PIL.Image.fromarray(photo).save(folder / f"{number}.png")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8 broken")
    return folder


@pytest.fixture
def run(monkeypatch):
    """Runs `match` with a model that is already loaded."""

    def run(model, *arguments, **options):
        monkeypatch.setattr(zoo, "load", lambda name: model)
        arguments = ["match", "toy", *map(str, arguments)]
        return click.testing.CliRunner().invoke(main, arguments, **options)

    return run


def test_texts_are_those_of_a_sorted_list(model, monkeypatch):
    similarities = model.match(QUESTION, ANSWERS)[0]
    order = np.argsort(-similarities)
    for k, at_once in ((1, 256), (3, 2), (100, 1)):
        monkeypatch.setattr("zoo.tasks.searching.AT_ONCE", at_once)
        found = model.search(QUESTION, ANSWERS, k, batch_size=2)
        assert found.query == QUESTION
        assert found.names == order[:k].tolist()
        assert found.entries == [ANSWERS[place] for place in order[:k]]
        np.testing.assert_allclose(found.similarities, similarities[order[:k]], atol=1e-5)
    assert found.similarities.dtype == np.float32


@pytest.mark.full  # a matcher and the command always search among images
def test_images_are_those_of_a_sorted_list(embedder, photos, folder, monkeypatch):
    monkeypatch.setattr("zoo.tasks.searching.AT_ONCE", 2)
    similarities = embedder.match(photos[2], photos)[0]
    order = np.argsort(-similarities)
    assert order[0] == 2
    found = embedder.search(photos[2], photos, k=4)
    assert found.names == order[:4].tolist()
    np.testing.assert_allclose(found.similarities, similarities[order[:4]], atol=1e-5)
    with pytest.warns(UserWarning, match="broken.jpg.*left out") as warned:
        of_folder = embedder.search(folder / "2.png", folder, k=4)
    assert {each.filename for each in warned if "left out" in str(each.message)} == {__file__}
    assert of_folder.names == [folder / f"{place}.png" for place in order[:4]]
    assert of_folder.entries == [path.read_bytes() for path in of_folder.names]
    assert of_folder.query == (folder / "2.png").read_bytes()


def test_files_that_cannot_be_opened_are_left_out(embedder, photos, tmp_path):
    (tmp_path / "a.png").symlink_to(tmp_path / "gone.png")
    (tmp_path / "b.png").mkdir()
    (tmp_path / "c.png").write_bytes(image_bytes(photos[0]))
    with pytest.warns(UserWarning, match="left out") as warned:
        found = embedder.search(photos[0], tmp_path)
    assert found.names == [tmp_path / "c.png"]
    told = [str(each.message) for each in warned if "left out" in str(each.message)]
    assert [name in text for name, text in zip(("a.png", "b.png"), told, strict=True)] == [True] * 2
    (tmp_path / "c.png").unlink()
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="None of the images in .* can be read"),
    ):
        embedder.search(photos[0], tmp_path)


def test_a_part_of_a_list_is_read_at_a_time(embedder, photos, monkeypatch):
    monkeypatch.setattr("zoo.tasks.searching.AT_ONCE", 2)
    read, largest, embed = [], [], embedder._vectors

    def listing():
        for photo in photos:
            read.append(photo)
            yield photo

    def count(requests, *arguments, **options):
        largest.append((len(read), len(requests)))
        return embed(requests, *arguments, **options)

    monkeypatch.setattr(embedder, "_vectors", count)
    embedder.search(photos[0], listing())
    assert largest == [(0, 1), (2, 2), (4, 2), (6, 2)]


def test_a_matcher_takes_texts_and_images(matcher, photos, folder):
    vectors = matcher.embed(images=photos)
    for query, vector in (
        ("a dog", matcher.embed(texts="a dog")),
        (photos[1], vectors[1]),
        (folder / "1.png", vectors[1]),
        ((folder / "1.png").read_bytes(), vectors[1]),
    ):
        similarities = vectors @ vector
        found = matcher.search(query, photos, k=3)
        assert found.names == np.argsort(-similarities)[:3].tolist()
        np.testing.assert_allclose(found.similarities, np.sort(similarities)[:2:-1], atol=1e-5)
        assert matcher.search(query, vectors, k=3).names == found.names
    for path in (str(folder / "1.png"), "missing.JPG", __file__):
        with pytest.raises(ValueError, match=r"a text if it is a str.*pass pathlib.Path\('"):
            matcher.search(path, photos)


def test_vectors_stand_for_their_texts(model):
    vectors = model.embed(ANSWERS)
    expected = model.search(QUESTION, ANSWERS, k=3)
    for array in (vectors, 7.0 * vectors, vectors.astype("float64")):
        found = model.search(QUESTION, array, k=3)
        assert (found.names, found.entries) == (expected.names, None)
        np.testing.assert_allclose(found.similarities, expected.similarities, atol=1e-6)
    with pytest.raises(ValueError, match=r"\(entries, 16\). Received: shape \(5, 15\)"):
        model.search(QUESTION, vectors[:, 1:])


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_equal_similarities_keep_their_order(at_once, monkeypatch):
    monkeypatch.setattr("zoo.tasks.searching.AT_ONCE", at_once)
    vectors = np.eye(2, dtype="float32")[[1, 0, 1, 0, 0, 1]]
    query = np.array([1.0, 0.0], "float32")
    assert find("", query, None, k=5, inputs=vectors).names == [1, 3, 4, 0, 2]
    entries = [(f"name {place}", place) for place in range(6)]
    found = find("", query, lambda places: vectors[places], k=2, inputs=entries)
    assert (found.names, found.entries) == (["name 1", "name 3"], [1, 3])
    vectors[1] = np.nan
    assert find("", query, None, k=6, inputs=vectors).names == [3, 4, 0, 2, 5, 1]
    assert find("", 0.0 * query, None, k=2, inputs=vectors[2:]).similarities.tolist() == [0.0, 0.0]


def test_mistakes_are_named(model, embedder, photos, folder):
    for collection in ([], np.zeros((0, 16), "float32")):
        with pytest.raises(ValueError, match="`inputs` of search must hold at least one entry"):
            model.search(QUESTION, collection)
    with pytest.raises(ValueError, match="`k` of search must be a positive integer.*k=0"):
        model.search(QUESTION, ANSWERS, k=0)
    with pytest.raises(ValueError, match="`query` must be one str.*of type list"):
        model.search([QUESTION], ANSWERS)
    with pytest.raises(ValueError, match="`inputs` of search must be a list of texts.*'Call us.'"):
        model.search(QUESTION, "Call us.")
    with pytest.raises(ValueError, match="(?s)a list of str. Received: array.*at position 0"):
        model.search(QUESTION, photos)
    with pytest.raises(ValueError, match="`query` of search must be one image.*each image on its"):
        embedder.search(photos[:1], photos)
    with pytest.raises(FileNotFoundError, match="no image 'a dog'") as caught:
        embedder.search("a dog", photos)
    assert caught.value.__notes__ == ["This is the `query` of search, which must be an image."]
    with pytest.raises(FileNotFoundError, match="no image 'a dog'") as caught:
        embedder.search(photos[0], [photos[1], "a dog"])
    assert caught.value.__notes__ == ["This is number 1 of the images, from 0."]
    for one in (photos[0], image_bytes(photos[0]), PIL.Image.fromarray(photos[0])):
        with pytest.raises(ValueError, match="`inputs` of search must be a folder, a list"):
            embedder.search(photos[0], one)
    with pytest.raises(ValueError, match="`inputs` of search must be a folder or a list.*a file"):
        embedder.search(photos[0], folder / "0.png")
    with pytest.raises(ValueError, match="There is no image"):
        embedder.search(photos[0], pathlib.Path(__file__).parent)


def test_prompts_stand_in_front_of_texts(model, tmp_path):
    prompts = {"query": "question: ", "passage": "answer: ", "other": "text: "}
    prompted = zoo.Embedder(model.core, model.tokenizer, prompts=prompts)
    asked, given = prompts["query"] + QUESTION, [prompts["passage"] + each for each in ANSWERS]
    np.testing.assert_allclose(
        prompted.embed(ANSWERS, prompt="passage"), model.embed(given), atol=1e-6
    )
    np.testing.assert_allclose(
        prompted.embed(QUESTION, prompt="other"), model.embed("text: " + QUESTION), atol=1e-6
    )
    found, expected = prompted.search(QUESTION, ANSWERS), model.search(asked, given)
    assert found.names == expected.names
    assert (found.query, found.entries[0]) == (QUESTION, ANSWERS[found.names[0]])
    np.testing.assert_allclose(found.similarities, expected.similarities, atol=1e-6)
    vectors = prompted.embed(ANSWERS, prompt="passage")
    assert prompted.search(QUESTION, vectors).names == expected.names
    loaded = zoo.load(prompted.save_to_preset(tmp_path / "preset"))
    assert loaded.prompts == prompts
    loaded.prompts = {"query": "ask: "}
    assert loaded.settings["prompts"] == {"query": "ask: "}
    assert prompted.serving_contents() == {"prompts.json": prompts}
    endpoints = prompted.endpoints()
    assert list(endpoints) == ["serving_default", "query", "document"]
    served = endpoints["document"].function(tf.constant(ANSWERS))["embedding"]
    np.testing.assert_allclose(served, vectors, atol=1e-6)
    with pytest.raises(ValueError, match="Unknown prompt 'querry'. Did you mean 'query'"):
        prompted.embed([], prompt="querry")
    with pytest.raises(ValueError, match=r"Unknown prompt \['query'\]. Did you mean 'query'"):
        prompted.embed([], prompt=["query"])
    with pytest.raises(ValueError, match="has no prompts. Received: prompt='query'"):
        model.embed(QUESTION, prompt="query")
    for wrong in ("query", {"query": None}):
        with pytest.raises(ValueError, match="`prompts` of an embedder must be a dictionary"):
            loaded.prompts = wrong


@pytest.mark.full
def test_a_saved_model_has_signatures_of_prompts(tmp_path):
    prompts = {"query": "question: ", "document": "answer: "}
    tokenizer = zoo.ByteBPETokenizer([])
    options = {"tokenizer": tokenizer, "prompts": prompts, **TOWER}
    model = zoo.load("text_encoder_embedding", weights=None, **options)
    served = tf.saved_model.load(str(model.export(tmp_path / "export"))).signatures
    for name in prompts:
        found = served[name](text=tf.constant(ANSWERS))["embedding"]
        np.testing.assert_allclose(found, model.embed(ANSWERS, prompt=name), atol=1e-5)


def test_plots(model, embedder, photos):
    found = embedder.search(photos[0], photos, k=2)
    titles = [axes.get_title() for axes in found.plot().axes]
    assert titles == ["query", *(f"{value:.2f}" for value in found.similarities)]
    texts = ["word " * 200, "costs $5 or $6"]
    found = model.search(QUESTION, texts)
    figure = found.plot()
    (axes,) = figure.axes
    assert figure.get_suptitle() == QUESTION
    labels = [each.get_text() for each in axes.get_yticklabels()]
    long = labels[found.names.index(0)]
    assert long.count("\n") == 2
    assert long.endswith(" …")
    assert labels[found.names.index(1)] == texts[1]
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths, found.similarities, rtol=1e-6)
    (axes,) = model.search(QUESTION, model.embed(texts)).plot().axes
    assert [each.get_text() for each in axes.get_yticklabels()] == list(map(str, found.names))


def test_command_for_images(run, embedder, matcher, photos, folder):
    for model, query in ((embedder, folder / "2.png"), (matcher, folder / "2.png")):
        found = run(model, query, folder, "-k", 2)
        assert found.exit_code == 1
        assert "broken.jpg" in found.stderr
        expected = model.search(photos[2], photos, k=2)
        assert found.stdout.splitlines() == [
            f"{value:.4f}\t{folder / f'{place}.png'}"
            for value, place in zip(expected.similarities, expected.names, strict=True)
        ]
    found = run(matcher, "a dog", folder / "1.png", folder / "4.png")
    assert (found.exit_code, len(found.stdout.splitlines())) == (0, 2)
    found = run(embedder, "a dog", folder / "1.png")
    assert (found.exit_code, "no image 'a dog'" in found.stderr) == (1, True)
    found = run(embedder, folder / "1.png", folder / "broken.jpg")
    assert found.stderr.splitlines()[1:] == ["Error: None of the files can be read."]
    assert "Give image files, or folders" in run(embedder, folder / "1.png").stderr


def test_command_for_texts(run, model, tmp_path):
    expected = model.search(QUESTION, ANSWERS, k=3)
    pairs = zip(expected.similarities, expected.entries, strict=True)
    lines = [f"{value:.4f}\t{text}" for value, text in pairs]
    found = run(model, QUESTION, "-k", 3, input="\n\n".join(ANSWERS) + "\n")
    assert (found.exit_code, found.stdout.splitlines()) == (0, lines)
    some, others = tmp_path / "some.txt", tmp_path / "others.jsonl"
    some.write_text("\n".join(ANSWERS[:3]))
    others.write_text('"Call us."\n{"text": "I\\tsent\\nit."}\n')
    found = run(model, QUESTION, "-k", 5, some, others)
    assert found.exit_code == 0
    texts = [line.partition("\t")[2] for line in found.stdout.splitlines()]
    assert sorted(texts) == sorted(ANSWERS)
    others.write_text('"Call us."\n7\n')
    found = run(model, QUESTION, others)
    assert (found.exit_code, len(found.stdout.splitlines())) == (1, 1)
    assert found.stderr.startswith(f"Error: {others}, line 2: A line is a string")
    found = run(model, QUESTION, "Call us.")
    assert (found.exit_code, "Call us. is not a file" in found.stderr) == (1, True)
    assert "There are no texts to search. Give files" in run(model, QUESTION, input="").stderr
