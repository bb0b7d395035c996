"""The Transformer translator of the zoo in CTranslate2, with the same weights and tokens."""

import tempfile

import ctranslate2
import keras
import numpy as np
import tensorflow as tf
import tokenizers
from ctranslate2.specs import TransformerSpec, common_spec

from zoo import decoding
from zoo.models.transformer_nmt import TransformerTranslator
from zoo.readers.text.pieces import SPECIAL_TOKENS
from zoo.tasks.source_to_target import LONGEST_TARGET

PAD, START, END = SPECIAL_TOKENS
PAD_ID, START_ID, END_ID = range(3)
POSITIONS = 1024  # the number of source tokens that CTranslate2 reads at most
# As in `zoo.decoding`: no padding (the unknown token here), no start token, and maybe no text.
AS_HERE = {"disable_unk": True, "suppress_sequences": [[START]], "min_decoding_length": 0}


def save_for_ctranslate2(core, pieces, folder):
    """Writes the weights of a translator as a CTranslate2 model.

    Args:
        core: A built `TransformerTranslator` with sinusoidal positions and ReLU.
        pieces: List of `str`, the token behind each id, `SPECIAL_TOKENS` first.
        folder: Folder to write to. It must exist.

    Raises:
        ValueError: If the model has another kind of positions or another activation.
    """
    config = core.config
    known = {"position": "sinusoidal", "activation": "relu"}
    if any(getattr(config, option) != value for option, value in known.items()):
        raise ValueError(f"Only models with {known} are written here. Received: {config}.")
    spec = TransformerSpec.from_config(
        config.num_layers,
        config.num_heads,
        pre_norm=config.normalize == "pre",
        activation=common_spec.Activation.RELU,
    )
    for part, blocks, norm in (
        (spec.encoder, core.encoder, core.encoder_norm),
        (spec.decoder, core.decoder, core.decoder_norm),
    ):
        part.position_encodings.encodings = _positions(core)
        for layer, block in zip(part.layer, blocks, strict=True):
            _set_block(layer, block)
        if config.normalize == "pre":
            _set_norm(part.layer_norm, norm)
    table = core.embedding.table.numpy()  # both scale it by the square root of its size
    for each in (spec.encoder.embeddings[0], spec.decoder.embeddings, spec.decoder.projection):
        each.weight = table
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token = spec.config.decoder_start_token = START
    spec.config.eos_token, spec.config.unk_token = END, PAD
    spec.config.layer_norm_epsilon = core.encoder[0].epsilon
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def in_ctranslate2(core, pieces, threads=1, compute_type="float32", workers=1):
    """Returns a `ctranslate2.Translator` on the CPU with the weights of a translator.

    Each of its workers translates a batch at a time, with a number of threads.
    """
    with tempfile.TemporaryDirectory() as folder:
        save_for_ctranslate2(core, pieces, folder)
        return ctranslate2.Translator(
            folder, compute_type=compute_type, inter_threads=workers, intra_threads=threads
        )


def translate(translator, library, num_beams, batch_size, texts):
    """Translates strings with CTranslate2, with the batches and maximum lengths of the zoo.

    Args:
        translator: A `ctranslate2.Translator`.
        library: The `tokenizers.Tokenizer` of the model.
        num_beams: 1 for greedy search.
        batch_size: Number of texts per batch, after sorting by length.
        texts: List of `str`.
    """
    join = tokenizers.decoders.ByteLevel().decode
    source = [[*each.tokens, END] for each in library.encode_batch(texts)]
    limits = [min(2 * len(tokens) + 10, LONGEST_TARGET) for tokens in source]
    by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    results = []  # of all batches, which the workers take from a queue
    for first in range(0, len(texts), batch_size):
        places = by_length[first : first + batch_size]
        results += translator.translate_batch(
            [source[place] for place in places],
            beam_size=num_beams,
            max_decoding_length=max(limits[place] for place in places),
            asynchronous=True,
            **AS_HERE,
        )
    translated = [None] * len(texts)
    for place, result in zip(by_length, results, strict=True):
        tokens = result.result().hypotheses[0][: limits[place]]
        translated[place] = join(tokens).removeprefix(" ")
    return translated


def pieces_of(vocabulary_size):
    """Returns names for the ids of a vocabulary: the special tokens, then numbers."""
    return [*SPECIAL_TOKENS, *map(str, range(len(SPECIAL_TOKENS), vocabulary_size))]


def require_same_tokens(normalize, sources=20, vocabulary_size=300, max_length=30):
    """Translates random sequences with a random model, in the zoo and in CTranslate2.

    Raises:
        AssertionError: If any tokens of the greedy translations differ.
    """
    core, pieces = _varied_core(vocabulary_size, normalize), pieces_of(vocabulary_size)
    rng = np.random.default_rng(0)
    ids = [
        [*rng.integers(len(SPECIAL_TOKENS), vocabulary_size, length).tolist(), END_ID]
        for length in rng.integers(1, 15, sources)
    ]
    padded = keras.utils.pad_sequences(ids, padding="post", value=PAD_ID)
    decoded = decoding.decode(
        core.step,
        *core.start(padded, max_length),
        "greedy",
        start_id=START_ID,
        end_id=END_ID,
        pad_id=PAD_ID,
        max_lengths=tf.fill([sources], max_length),
    )
    results = in_ctranslate2(core, pieces).translate_batch(
        [[pieces[token] for token in row] for row in ids],
        beam_size=1,
        max_decoding_length=max_length,
        **AS_HERE,
    )
    ours = [
        [pieces[token] for token in row[:length]]
        for row, length in zip(
            decoded.token_ids[:, 0].numpy(), decoded.lengths[:, 0].numpy(), strict=True
        )
    ]
    theirs = [result.hypotheses[0] for result in results]
    if ours != theirs:
        raise AssertionError(f"CTranslate2 differs, normalize={normalize!r}: {ours}, {theirs}")


def _varied_core(vocabulary_size, normalize):
    """Returns a random model whose outputs vary and sometimes end.

    All of its weights are random, including biases and norms.
    """
    keras.utils.set_random_seed(0)
    core = TransformerTranslator(
        vocabulary_size, num_layers=2, size=32, num_heads=4, hidden=64, normalize=normalize
    )
    core.build()
    rng = np.random.default_rng(0)
    for weight in core.weights:
        signs, noise = rng.choice([-1, 1], weight.shape), rng.normal(0, 0.1, weight.shape)
        weight.assign(2 * signs * weight + noise)
    is_end = np.arange(vocabulary_size)[:, None] == END_ID
    core.embedding.table.assign(core.embedding.table * (1.0 + is_end))
    return core


def _positions(core):
    nothing = np.zeros((1, POSITIONS, core.config.size), "float32")
    return keras.ops.convert_to_numpy(core.embedding.place(nothing))[0]


def _set_block(spec, block):
    """Writes a block of the encoder or the decoder."""
    is_decoder = hasattr(block, "cross_attention")
    looks_back = block.self_attention if is_decoder else block.attention
    norm = block.self_attention_norm if is_decoder else block.attention_norm
    inputs = looks_back.query_projection, looks_back.key_projection, looks_back.value_projection
    _set_attention(spec.self_attention, [inputs], looks_back, norm)
    if is_decoder:
        cross = block.cross_attention
        inputs = [cross.query_projection], [cross.key_projection, cross.value_projection]
        _set_attention(spec.attention, inputs, cross, block.cross_attention_norm)
    _set_norm(spec.ffn.layer_norm, block.feed_forward_norm)
    _set_linear(spec.ffn.linear_0, block.feed_forward.inner)
    _set_linear(spec.ffn.linear_1, block.feed_forward.outer)


def _set_attention(spec, inputs, attention, norm):
    """Writes an attention layer; each of `inputs` lists projections that CTranslate2 fuses."""
    _set_norm(spec.layer_norm, norm)
    for linear, layers in zip(spec.linear, [*inputs, [attention.output_projection]], strict=True):
        _set_linear(linear, *layers)


def _set_norm(spec, norm):
    spec.gamma, spec.beta = norm.gamma.numpy(), norm.beta.numpy()


def _set_linear(spec, *layers):
    spec.weight = np.concatenate([layer.kernel.numpy().T for layer in layers])
    if layers[0].use_bias:
        spec.bias = np.concatenate([layer.bias.numpy() for layer in layers])
