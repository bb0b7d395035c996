"""Hugging Face text encoders: the same numbers as transformers, and nothing overlooked."""

import io
import json

import keras
import numpy as np
import pytest

import zoo
from keras_attention import MultiHeadAttention, positions
from zoo.checkpoints.loading import read_checkpoint
from zoo.checkpoints.tensor_files import TensorFiles

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import safetensors.numpy  # noqa: E402
import safetensors.torch  # noqa: E402

from tests.checkpoints import tiny  # noqa: E402
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


@pytest.mark.usefixtures("eagerly")
def test_sentence_transformers_pool_and_normalize(tmp_path):
    theirs, pieces = tiny.save(tmp_path, "Bert", "Model")
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    (tmp_path / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 48}')

    def check(kinds, expected):
        (tmp_path / "modules.json").write_text(json.dumps(modules[:kinds]))
        model = zoo.load(str(tmp_path))
        np.testing.assert_allclose(model.embed(tiny.TEXTS), expected, atol=1e-4)
        assert model.max_tokens == 48
        return model

    output, inputs = tiny.outputs(theirs, pieces)
    mask = inputs["attention_mask"].numpy()[..., None]
    mean = (output.last_hidden_state.numpy() * mask).sum(1) / mask.sum(1)
    check(2, mean)
    unit = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    model = check(3, unit)
    np.testing.assert_allclose(
        model.match(tiny.TEXTS, tiny.TEXTS[:1]), unit @ unit[:1].T, atol=1e-4
    )
    prompts = tmp_path / "config_sentence_transformers.json"
    prompts.write_text('{"prompts": {"query": "query: "}, "default_prompt_name": "query"}')
    with pytest.raises(ValueError, match="default_prompt_name='query', which is not implemented"):
        zoo.load(str(tmp_path))
    told = {"query": "a mat: ", "passage": "the dogs: ", "other": ""}
    prompts.write_text(json.dumps({"prompts": told, "default_prompt_name": None}))
    model = check(3, unit)
    assert model.prompts == told
    zoo.save_checkpoint(model, tmp_path / "saved")
    assert read_checkpoint(tmp_path / "saved")[0].options["prompts"] == told
    for name, prompt in told.items():
        texts = [prompt + text for text in tiny.TEXTS]
        output, inputs = tiny.outputs(theirs, pieces, texts)
        mask = inputs["attention_mask"].numpy()[..., None]
        expected = (output.last_hidden_state.numpy() * mask).sum(1) / mask.sum(1)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        found = model.embed(tiny.TEXTS, prompt=name)
        np.testing.assert_allclose(found, expected, atol=1e-4)
    path = tmp_path / "1_Pooling" / "config.json"
    path.write_text(json.dumps({**pooling, "include_prompt": False}))
    with pytest.raises(ValueError, match="include_prompt=false, which is not implemented"):
        zoo.load(tmp_path)
    path.write_text(json.dumps(pooling))
    path = tmp_path / "tokenizer_config.json"
    cased = {"do_lower_case": False, "strip_accents": True}
    path.write_text(json.dumps({**json.loads(path.read_text()), **cased}))
    settings = {"max_seq_length": 48, "do_lower_case": True}
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(settings))
    check(3, unit)
    path = tmp_path / "sentence_bert_config.json"
    path.write_text('{"max_seq_length": 514}')  # some folders count positions that do not exist
    assert read_checkpoint(tmp_path)[0].options["max_tokens"] == 64
    path.write_text('{"max_seq_')
    with pytest.raises(ValueError, match="sentence_bert_config.json is damaged: it is not JSON"):
        read_checkpoint(tmp_path)
    path.unlink()
    pooling = {"pooling_mode_max_tokens": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    with pytest.raises(ValueError, match="pooling_mode_max_tokens, which is not implemented"):
        zoo.load(str(tmp_path))


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


@pytest.mark.full
@pytest.mark.parametrize("is_pickled", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.usefixtures("eagerly")
def test_sentence_transformers_with_a_dense_layer(tmp_path, is_pickled):
    folder, place = tmp_path / "hf", tmp_path / "hf" / "2_Dense"
    theirs, pieces = tiny.save(folder, "Bert", "Model", num_hidden_layers=1)
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    paths = ["", "1_Pooling", "2_Dense", "3_Normalize"]
    modules = [
        {"path": path, "type": f"sentence_transformers.models.{kind}"}
        for path, kind in zip(paths, kinds, strict=True)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    place.mkdir()
    dense = {"in_features": 16, "out_features": 10, "bias": True}
    dense["activation_function"] = "torch.nn.modules.activation.Tanh"
    (place / "config.json").write_text(json.dumps(dense))
    layer = torch.nn.Linear(16, 10)
    state = {f"linear.{name}": tensor for name, tensor in layer.state_dict().items()}
    if is_pickled:
        torch.save(state, place / "pytorch_model.bin")
    else:
        safetensors.torch.save_file(state, place / "model.safetensors")

    output, _ = tiny.outputs(theirs, pieces)
    with torch.no_grad():
        expected = torch.tanh(layer(output.last_hidden_state[:, 0])).numpy()
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    model = zoo.load(folder)
    np.testing.assert_allclose(model.embed(tiny.TEXTS), expected, atol=1e-5)
    model.save_to_preset(tmp_path / "preset")
    zoo.save_checkpoint(model, tmp_path / "saved")
    for saved in ("preset", "saved"):
        found = zoo.load(tmp_path / saved).embed(tiny.TEXTS[0])
        np.testing.assert_allclose(found, expected[0], atol=1e-5)
    names = safetensors.numpy.load_file(tmp_path / "saved" / "2_Dense" / "model.safetensors")
    assert set(names) == set(state)

    classifier = zoo.load(folder, labels=["a", "b"])
    assert classifier.core.pooler.units == 16  # BERT's own, which is new
    zoo.save_checkpoint(classifier, tmp_path / "classifier")
    assert not (tmp_path / "classifier" / "2_Dense").exists()
    assert zoo.load(tmp_path / "preset", labels=["a", "b"]).core.pooler.units == 16
    (place / "config.json").write_text(json.dumps({**dense, "bias": False}))
    with pytest.raises(ValueError, match="bias=False, which is not implemented"):
        zoo.load(folder)


@pytest.mark.full
def test_sentence_transformers_made_of_a_masked_model(tmp_path):
    """Their configs still name the class that they were trained from."""
    theirs, pieces = tiny.save(tmp_path, "MPNet", "ForMaskedLM")
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [{"path": "pool", "type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    inputs = pieces(tiny.TEXTS, padding=True, return_tensors="pt")
    first = theirs.mpnet(**inputs).last_hidden_state.detach().numpy()[:, 0]
    unit = first / np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(zoo.load(str(tmp_path)).embed(tiny.TEXTS), unit, atol=1e-4)


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


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"post_processor": None}, r"post_processor of the tokenizer.*the tokens \[\(\)\]"),
        ({"pad_token": "[SEP]"}, "no padding token of its own"),
    ],
)
def test_tokenizers_that_do_not_fit(checkpoint, tmp_path, part, message):
    changed(checkpoint, tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        path = tmp_path / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **part}))
    with pytest.raises(ValueError, match=message):
        zoo.load(str(tmp_path))


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


# Nothing is overlooked


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tiny.save(folder, "Bert", "ForSequenceClassification", num_hidden_layers=1)
    return folder


def test_other_files(checkpoint, tmp_path):
    import safetensors.numpy
    import safetensors.torch
    import torch

    expected = zoo.load(str(checkpoint)).core.get_weights()
    tensors = safetensors.torch.load_file(checkpoint / "model.safetensors")
    for path in checkpoint.iterdir():
        if path.name != "model.safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())

    def check(atol=0.0):
        for ours, theirs in zip(zoo.load(str(tmp_path)).core.get_weights(), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=atol)

    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, of_shard in shards.items():
        content = {name: tensors[name].bfloat16() for name in of_shard}
        safetensors.torch.save_file(content, tmp_path / shard)
    index = {"weight_map": {name: shard for shard in shards for name in shards[shard]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    check(atol=0.02)  # bfloat16 has 8 bits of precision
    (tmp_path / "a.safetensors").unlink()
    with pytest.raises(ValueError, match=r"files that are not there: a\.safetensors"):
        check()
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(ValueError, match="holds no weights"):
        check()
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): x for name, x in tensors.items()}
    torch.save(old, tmp_path / "pytorch_model.bin")
    check()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_half_precision(checkpoint, dtype):
    half, whole = (zoo.load(str(checkpoint), dtype=each) for each in (dtype, "float32"))
    for rounded, weight in zip(half.core.weights, whole.core.weights, strict=True):
        expected = keras.ops.cast(weight.value, rounded.dtype)
        np.testing.assert_array_equal(rounded.numpy(), expected.numpy())
    assert dtype in {weight.dtype for weight in half.core.weights}


def changed(checkpoint, tmp_path, change_config=None, change_tensors=None):
    """Returns the path of a checkpoint with other settings or tensors."""
    import safetensors.numpy

    for path in checkpoint.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((checkpoint / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **(change_config or {})}))
    tensors = safetensors.numpy.load_file(checkpoint / "model.safetensors")
    if change_tensors:
        change_tensors(tensors)
    safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
    return str(tmp_path)


def test_settings_without_an_effect(checkpoint, tmp_path):
    """Versions 2 and 3 of transformers wrote all settings; only heads for masks tie weights."""
    old = {"pruned_heads": {}, "length_penalty": 1.0, "max_length": 20, "do_sample": False}
    old |= {"num_beams": 1, "repetition_penalty": 1.0, "tf_legacy_loss": False}
    path = changed(checkpoint, tmp_path, {**old, "tie_word_embeddings": False})
    assert zoo.load(path).core.config == zoo.load(str(checkpoint)).core.config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pruned_heads": {"0": [1]}}, "not implemented: pruned_heads="),
        ({"rotary_theta": 2}, "not implemented: rotary_theta=2"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        ({"hidden_act": "mish"}, "activation 'mish'"),
        (
            {"model_type": "roformer"},
            "'roformer', which is not implemented. Implemented: audio-.*, bart, bert",
        ),
        ({"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice"),
        ({"problem_type": "ranking"}, "must be one of.*regression.*Received: 'ranking'"),
        ({"problem_type": "regression"}, "model with 2 outputs, which is not implemented"),
        ({"vocab_size": 3}, "size=3 is too small"),
        ({"hidden_size": "large"}, "cannot be loaded"),
        ({"id2label": 3}, "cannot be loaded"),
        ({"architectures": 3}, "cannot be loaded"),
        ({"num_hidden_layers": None}, "lacks 'num_hidden_layers'"),
        ({"intermediate_size": 32}, r"has the shape \(24, 16\) in the file"),
        ({"num_hidden_layers": 2}, r"lacks tensors.*encoder\.layer\.1"),
        ({"num_hidden_layers": 10**6}, "asks for 1000000 layers, and the files have"),
        ({"intermediate_size": 10**12}, "asks for a larger model than the files of weights"),
    ],
)
def test_settings_that_do_not_fit(checkpoint, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        zoo.load(changed(checkpoint, tmp_path, change))


def test_tensors_that_do_not_fit(checkpoint, tmp_path):
    name = "bert.encoder.layer.0.output.dense.weight"

    def check(change, message):
        with pytest.raises(ValueError, match=message):
            zoo.load(changed(checkpoint, tmp_path, change_tensors=change))

    check(lambda tensors: tensors.pop(name), f"lacks tensors that the model needs: {name}")
    check(lambda tensors: tensors.update(extra=np.ones(3, "f")), "no place for: extra")
    check(lambda tensors: tensors[name].fill(np.nan), f"{name} holds numbers that are not finite")
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is damaged"):
        zoo.load(str(tmp_path))
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="is damaged"):
        zoo.load(str(tmp_path))
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n")
    with pytest.raises(ValueError, match="model.safetensors is damaged.*git lfs pull"):
        zoo.load(str(tmp_path))
    path.unlink()
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"index.json is damaged: KeyError\('weight_map'\)"):
        zoo.load(str(tmp_path))


def test_pickled_files_that_are_not_read(tmp_path):
    tensors, pickled = {"weight": torch.zeros(300)}, io.BytesIO()
    torch.save(tensors, pickled)
    half = pickled.getvalue()[: len(pickled.getvalue()) // 2]
    path = tmp_path / "pytorch_model.bin"
    for content in (b"", b"version https://git-lfs.github.com/spec/v1", half):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="pytorch_model.bin is damaged, or holds something"):
            TensorFiles(tmp_path)
    for content in ([1], {"model": tensors}, torch.nn.Linear(2, 2)):
        torch.save(content, path)
        with pytest.raises(ValueError, match="other than a dictionary of tensors") as found:
            TensorFiles(tmp_path)
        assert "weights_only" not in str(found.value)  # no advice to run the code in it


def test_labels_where_there_is_no_place_for_them(tmp_path):
    tiny.save(tmp_path, "Bert", "Model")
    with pytest.raises(ValueError, match="has its own weights and tokenizer"):
        zoo.load(str(tmp_path), weights=None)
