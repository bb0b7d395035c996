"""Hugging Face text encoders: the same numbers as transformers."""

import json

import keras
import numpy as np
import pytest

import zoo
from keras_attention import MultiHeadAttention, positions
from zoo.checkpoints.loading import read_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import safetensors.torch  # noqa: E402

from tests.checkpoints import tiny  # noqa: E402
from tests.checkpoints.round_trips import check_saved_and_back  # noqa: E402
from tests.checkpoints.signatures import default_signature  # noqa: E402

KINDS = ["ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "Model"]
LABELS = ["bad", "fair", "good"]


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_numbers_are_those_of_transformers(tmp_path, family, kind):
    settings = {"id2label": dict(enumerate(LABELS))} if "Classification" in kind else {}
    theirs, pieces = tiny.save(tmp_path, family, kind, **settings)
    expected, inputs = tiny.outputs(theirs, pieces)
    model = zoo.load(str(tmp_path))
    ids, _ = model.reader.read(tiny.TEXTS)
    assert ids[:, 0].numpy().tolist() == inputs["input_ids"].tolist()
    found, weights = model.core(ids, return_attention_scores=True)
    mask = inputs["attention_mask"].numpy()
    if kind == "Model":
        states, _ = model.core.encode(ids)
        np.testing.assert_allclose(
            states.numpy()[mask > 0], expected.last_hidden_state.numpy()[mask > 0], atol=1e-4
        )
    elif kind == "ForSequenceClassification":
        np.testing.assert_allclose(found, expected.logits, atol=1e-4)
        assert model.labels == LABELS
    else:
        np.testing.assert_allclose(
            found.numpy()[mask > 0], expected.logits.numpy()[mask > 0], atol=1e-4
        )
    for ours, others in zip(weights, expected.attentions, strict=True):
        seen = mask[:, None, :, None] * np.ones_like(ours)
        np.testing.assert_allclose(ours * seen, others.numpy() * seen, atol=1e-4)


@pytest.mark.usefixtures("eagerly")
def test_saved_and_exported(request, tmp_path):
    import tensorflow as tf

    settings = {"id2label": dict(enumerate(LABELS)), "num_hidden_layers": 1}
    theirs, pieces = tiny.save(tmp_path / "hf", "Bert", "ForSequenceClassification", **settings)
    expected, _ = tiny.outputs(theirs, pieces)
    expected = expected.logits.softmax(-1).numpy()
    model = zoo.load(str(tmp_path / "hf"))
    result = model.classify(tiny.TEXTS, return_probabilities=True)
    np.testing.assert_allclose(result.probabilities, expected, atol=1e-5)
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    assert (again.labels, again.core.config) == (model.labels, model.core.config)
    for ours, saved in zip(model.core.get_weights(), again.core.get_weights(), strict=True):
        np.testing.assert_array_equal(saved, ours)
    served = default_signature(request, model, tmp_path / "exported")
    found = served(text=tf.constant(tiny.TEXTS))
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_masks_are_filled_as_the_pipeline_does(tmp_path):
    theirs, pieces = tiny.save(tmp_path, "Roberta", "ForMaskedLM")
    text = f"The cats{pieces.mask_token} on the mat."
    pipeline = transformers.pipeline("fill-mask", model=theirs, tokenizer=pieces, top_k=3)
    expected = pipeline(text)
    model = zoo.load(str(tmp_path))
    found = model.fill_mask(text, num_candidates=3)
    assert [each.token for each in found] == [each["token_str"].strip() for each in expected]
    np.testing.assert_allclose(
        [each.probability for each in found], [each["score"] for each in expected], atol=1e-5
    )
    both = model.fill_mask([text, f"{text} {model.mask}"], num_candidates=1)
    assert both[0][0].text == found[0].text
    assert [len(of_mask) for of_mask in both[1]] == [1, 1]
    with pytest.raises(ValueError, match="texts.*must be texts with <mask>"):
        model.fill_mask("No gap.")


@pytest.mark.full
def test_settings_of_modernbert(tmp_path):
    folder = tmp_path / "hf"
    labels = {"id2label": dict(enumerate(LABELS)), "classifier_pooling": "mean"}
    theirs, pieces = tiny.save(folder, "ModernBert", "ForSequenceClassification", **labels)
    expected, _ = tiny.outputs(theirs, pieces)

    def check():
        logits = zoo.load(folder).core(model.reader.read(tiny.TEXTS)[0])
        np.testing.assert_allclose(logits, expected.logits, atol=1e-4)

    model = zoo.load(folder)
    check()
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    assert again.core.config == model.core.config
    np.testing.assert_array_equal(again.classify(tiny.TEXTS), model.classify(tiny.TEXTS))
    path = folder / "config.json"
    config = json.loads(path.read_text())
    older = {
        name: x for name, x in config.items() if name not in ("layer_types", "rope_parameters")
    }
    path.write_text(json.dumps({**older, "global_attn_every_n_layers": 2}))
    check()
    wavelengths = {"local_rope_theta": 50.0, "global_rope_theta": 9.0}
    path.write_text(json.dumps({**older, "global_attn_every_n_layers": 2, **wavelengths}))
    first, second, third = (block.position for block in zoo.load(folder).core.blocks)
    assert [each.max_wavelength for each in (first, second, third)] == [9.0, 50.0, 9.0]
    for change, message in (
        ({"layer_types": ["full_attention"] * 2 + ["sliding_attention"]}, "layer_types"),
        ({"classifier_pooling": "max"}, "classifier_pooling='max'"),
        ({"norm_bias": True}, "norm_bias=True"),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear"}}}, "full_attention"),
    ):
        path.write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=f"{message}.*not implemented"):
            read_checkpoint(folder)


NAMES_OF_NOMIC = {  # in the authors' own code
    "attention_probs_dropout_prob": "attn_pdrop",
    "hidden_act": "activation_function",
    "hidden_dropout_prob": "resid_pdrop",
    "hidden_size": "n_embd",
    "intermediate_size": "n_inner",
    "layer_norm_eps": "layer_norm_epsilon",
    "max_position_embeddings": "max_trained_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


@pytest.mark.usefixtures("eagerly")
def test_settings_of_nomic_bert(tmp_path):
    tiny.save(tmp_path, "NomicBert", "Model")
    model = zoo.load(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["rotary_emb_base"] = config.pop("rope_parameters")["rope_theta"]
    del config["head_dim"]
    config = {NAMES_OF_NOMIC.get(name, name): value for name, value in config.items()}
    config |= {"activation_function": "swiglu", "prenorm": False, "rotary_scaling_factor": None}
    path.write_text(json.dumps(config))
    np.testing.assert_array_equal(zoo.load(tmp_path).embed(tiny.TEXTS), model.embed(tiny.TEXTS))
    for change, message in (
        ({"prenorm": True}, "prenorm=True, which is not implemented"),
        ({"architectures": ["NomicBertForQuestionAnswering"]}, "question answering is not impl"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "by 'yarn', which is not implemented"),
    ):
        path.write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=message):
            read_checkpoint(tmp_path)


@pytest.mark.usefixtures("eagerly")
def test_gte_in_the_files_of_its_authors(tmp_path):
    settings = {"type_vocab_size": 0}  # as in gte-base-en-v1.5
    theirs, pieces = tiny.save(tmp_path, "Gte", "Model", **settings)
    expected, inputs = tiny.outputs(theirs, pieces, tiny.TEXTS[:1])
    path = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file({f"new.{name}": each for name, each in tensors.items()}, path)
    states, _ = zoo.load(tmp_path).core.encode(inputs["input_ids"].numpy())
    np.testing.assert_allclose(states, expected.last_hidden_state, atol=1e-4)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text()) | {"architectures": ["GteForQuestionAnswering"]}
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="question answering is not implemented"):
        read_checkpoint(tmp_path)


@pytest.mark.usefixtures("eagerly")
def test_esm_2_with_the_frequencies_of_its_training(tmp_path):
    """They are in half precision in the files of the hub, and change what is far apart."""
    theirs, pieces = tiny.save(tmp_path / "theirs", "Esm", "ForMaskedLM", num_hidden_layers=1)
    files = tmp_path / "theirs" / "model.safetensors"
    tensors = safetensors.torch.load_file(files)
    (name,) = (name for name in tensors if name.endswith("inv_freq"))
    per_layer = name.replace("*", "0")  # as before transformers 5
    tensors[per_layer] = tensors.pop(name).half().float()
    safetensors.torch.save_file(tensors, files)
    theirs.esm.rotary_embeddings.inv_freq.copy_(tensors[per_layer])
    model = zoo.load(tmp_path / "theirs")
    text = "MK<mask>LAG V " * 6 + "<mask>x<null_1>"
    expected, inputs = tiny.outputs(theirs, pieces, [text, "A<mask>G"])
    ids, _ = model.reader.read([text, "A<mask>G"])
    assert ids[:, 0].numpy().tolist() == inputs["input_ids"].tolist()
    mask = inputs["attention_mask"].numpy() > 0
    np.testing.assert_allclose(model.core(ids).numpy()[mask], expected.logits[mask], atol=1e-4)
    second = pieces.decode(expected.logits[1, 2].topk(2).indices[1])
    assert model.fill_mask("A<mask>G")[1].text == f"A{second}G"
    check_saved_and_back(model, theirs, tmp_path)
    tensors[per_layer] *= 1.01
    safetensors.torch.save_file(tensors, files)
    with pytest.raises(ValueError, match="frequencies .* neither those of rope_theta=10000.0 nor"):
        read_checkpoint(tmp_path / "theirs")


@pytest.mark.usefixtures("eagerly")
def test_esm_1b(tmp_path):
    settings = {"position_embedding_type": "absolute", "emb_layer_norm_before": True}
    theirs, pieces = tiny.save(tmp_path, "Esm", "Model", token_dropout=False, **settings)
    expected, inputs = tiny.outputs(theirs, pieces, ["LAGV"])
    model = zoo.load(tmp_path)
    states, _ = model.core.encode(inputs["input_ids"].numpy())
    np.testing.assert_allclose(states, expected.last_hidden_state, atol=1e-4)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"position_embedding_type": "relative_key"}))
    with pytest.raises(ValueError, match="'relative_key', which is not implemented"):
        read_checkpoint(tmp_path)
    path.write_text(json.dumps(config))
    (tmp_path / "vocab.txt").write_text("<cls>\n<pad>\n<eos>\n<unk>\nACGTAC\nA\n<mask>")
    with pytest.raises(ValueError, match="several characters, such as 'ACGTAC', is not impl"):
        read_checkpoint(tmp_path)


@pytest.mark.full
def test_settings_of_deberta(tmp_path):
    folder = tmp_path / "hf"
    theirs, pieces = tiny.save(folder, "DebertaV2", "Model", norm_rel_ebd="none", type_vocab_size=0)
    expected, inputs = tiny.outputs(theirs, pieces, tiny.TEXTS[:1])
    ids = inputs["input_ids"].numpy()
    path = folder / "config.json"
    config = json.loads(path.read_text()) | {"pos_att_type": "p2c|c2p"}
    del config["architectures"]  # as in Microsoft's files
    path.write_text(json.dumps(config))
    model = zoo.load(folder)
    assert isinstance(model, zoo.Embedder)
    np.testing.assert_allclose(model.core.encode(ids)[0], expected.last_hidden_state, atol=1e-4)
    distances = model.core.distances
    assert distances.embeddings.shape == (8, 16)
    assert all(block.position.embedding is distances for block in model.core.blocks)
    model.save_to_preset(tmp_path / "preset")
    again = zoo.load(tmp_path / "preset")
    assert again.core.config == model.core.config
    np.testing.assert_array_equal(again.embed(tiny.TEXTS), model.embed(tiny.TEXTS))
    classifier = zoo.load(folder, labels=LABELS)
    assert len(classifier.core.trainable_weights) == len(model.core.weights) + 4
    for change, message in (
        ({"pos_att_type": "c2p"}, "pos_att_type"),
        ({"share_att_key": False}, "share_att_key=False"),
        ({"position_biased_input": True}, "position_biased_input=True"),
        ({"conv_kernel_size": 3}, "conv_kernel_size=3"),
        ({"norm_rel_ebd": "batch_norm"}, "norm_rel_ebd='batch_norm'"),
    ):
        path.write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=f"{message}.*not implemented"):
            read_checkpoint(folder)


@pytest.mark.parametrize(("buckets", "longest"), [(16, 512), (8, 20), (-1, 12)])
def test_disentangled_attention_is_that_of_transformers(buckets, longest):
    from transformers.models.deberta_v2 import modeling_deberta_v2

    config = transformers.DebertaV2Config(
        hidden_size=12,
        num_attention_heads=3,
        relative_attention=True,
        position_buckets=buckets,
        max_relative_positions=longest,
        pos_att_type="p2c|c2p",
        share_att_key=True,
    )
    theirs = modeling_deberta_v2.DisentangledSelfAttention(config).eval()
    number, length = 2 * (buckets if buckets > 0 else longest), longest + 20
    vectors, x = torch.randn(number, 12), torch.randn(1, length, 12)
    with torch.no_grad():
        visible = torch.ones(1, 1, length, length)
        _, expected = theirs(x, visible, output_attentions=True, rel_embeddings=vectors)
    embedding = positions.DistanceEmbedding(longest, number if buckets > 0 else None)
    ours = MultiHeadAttention(3, 4, position=positions.Disentangled(embedding))
    ours.build(x.shape, x.shape)
    embedding.embeddings.assign(vectors)
    for name in ("query", "key"):
        own, other = getattr(ours, f"{name}_projection"), getattr(theirs, f"{name}_proj")
        own.kernel.assign(other.weight.detach().T)
        own.bias.assign(other.bias.detach())
    _, found = ours(x.numpy(), x.numpy(), return_attention_scores=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.full
def test_a_new_head_of_modernbert_begins_with_that_of_masked_tokens(tmp_path):
    theirs, _ = tiny.save(tmp_path, "ModernBert", "ForMaskedLM")
    core = zoo.load(tmp_path, labels=LABELS).core
    np.testing.assert_array_equal(core.transform.kernel, theirs.head.dense.weight.detach().T)
    np.testing.assert_array_equal(core.transform_norm.gamma, theirs.head.norm.weight.detach())
    assert core.output_layer.units == 3


@pytest.mark.parametrize(
    ("family", "pad_token_id"),
    [("Bert", 7), ("Roberta", None)],  # RoBERTa's own default is 1, and the tokenizer pads with 0
)
@pytest.mark.usefixtures("eagerly")
def test_the_tokenizer_says_what_is_padding(tmp_path, family, pad_token_id):
    """As in multilingual MiniLM, whose tokenizer is that of XLM-R, and its config that of BERT."""
    _, pieces = tiny.save(tmp_path, family, "Model", num_hidden_layers=1)
    path = tmp_path / "config.json"
    config = {**json.loads(path.read_text()), "pad_token_id": pad_token_id}
    path.write_text(json.dumps({key: x for key, x in config.items() if x is not None}))
    theirs = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    expected, inputs = tiny.outputs(theirs, pieces)
    mask = inputs["attention_mask"].numpy()[..., None]
    mean = (expected.last_hidden_state.detach().numpy() * mask).sum(1) / mask.sum(1)
    mean = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    model = zoo.load(str(tmp_path), pooling="mean")
    np.testing.assert_allclose(model.embed(tiny.TEXTS), mean, atol=1e-4)


def test_a_discriminator_gets_a_new_head(tmp_path):
    theirs, _ = tiny.save(tmp_path, "Electra", "ForPreTraining", num_hidden_layers=1)
    model = zoo.load(str(tmp_path), labels=["no", "yes"])
    table = theirs.electra.embeddings.word_embeddings.weight.detach()
    np.testing.assert_array_equal(model.core.embedding.tokens, table)
    with pytest.raises(ValueError, match="discriminator.*not implemented.*pass labels"):
        zoo.load(str(tmp_path))


@pytest.mark.full  # `lora_test` trains one
def test_new_labels_get_a_new_head(tmp_path):
    tiny.save(tmp_path, "Bert", "ForMaskedLM", num_hidden_layers=1)
    model = zoo.load(str(tmp_path), labels=["no", "yes"], dropout=0.0, attention_dropout=0.0)
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    texts, labels = ["good cats", "bad dogs"] * 32, ["yes", "no"] * 32
    history = model.fit(texts, labels, epochs=2, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.7 * history["loss"][0]
    assert model.classify(["good cats", "bad dogs"]) == ["yes", "no"]


def test_labels_where_there_is_no_place_for_them(tmp_path):
    tiny.save(tmp_path, "Bert", "Model")
    with pytest.raises(ValueError, match="has its own weights and tokenizer"):
        zoo.load(str(tmp_path), weights=None)
