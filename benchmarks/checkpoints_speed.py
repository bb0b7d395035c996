"""Speed of Hugging Face checkpoints compared with transformers and PyTorch, on the CPU.

python -m benchmarks.checkpoints_speed --data-dir /path/to/multi30k
python -m benchmarks.checkpoints_speed --loading

Both libraries load the same folders of random float32 weights, which transformers writes in the
sizes of BERT-base, all-MiniLM-L6-v2, GPT-2 and opus-mt. They must produce the same vectors or texts
before anything is measured. The ratio is the time of transformers divided by that of the zoo: above
1, the zoo is faster.

The first command measures a forward pass, the embedding of the 1,000 sentences of the test set,
generation and translation. The contenders take turns in one process. The second command measures
loading GPT-2, each time in a new process.
"""

import functools
import gzip
import io
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import click
import numpy as np

LENGTH, BATCH, NEW_TOKENS, BEAMS = 128, 8, 32, 4
CASES = ("forward", "embed", "generate", "translate")
OF_LOADING = {
    "zoo": ("import keras, tensorflow as tf, zoo; tf.zeros(1)", "model = zoo.load({folder!r})"),
    "transformers": (
        "import torch, transformers; torch.zeros(1); from transformers import GPT2LMHeadModel",
        "model = GPT2LMHeadModel.from_pretrained({folder!r}); "
        "tokens = transformers.AutoTokenizer.from_pretrained({folder!r})",
    ),
}
LOAD = """
import re, time
{imports}

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*([0-9]+)", open("/proc/self/status").read())[1])

base, start = peak(), time.perf_counter()
{load}
print(time.perf_counter() - start, base, peak())
"""


# ------------------------------------------------------------------------------ random checkpoints


def save_encoder(folder, lines, pieces=8000, **sizes):
    """Writes a BERT encoder with the files that make it a sentence-transformers model."""
    import transformers

    tokens = transformers.BertTokenizer().train_new_from_iterator(lines, pieces)
    config = transformers.BertConfig(**sizes)
    transformers.BertModel(config).save_pretrained(folder)
    tokens.save_pretrained(folder)
    kinds = [{"type": f"models.{kind}", "path": kind} for kind in ("Transformer", "Pooling")]
    (folder / "modules.json").write_text(json.dumps([*kinds, {"type": "models.Normalize"}]))
    (folder / "Pooling").mkdir()
    (folder / "Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))


def save_gpt2(folder, lines):
    import transformers

    tokens = transformers.GPT2Tokenizer().train_new_from_iterator(lines, 8000)
    transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)
    tokens.save_pretrained(folder)


def save_marian(folder, lines, size=58_101):
    """Writes a translator of the size of opus-mt-en-de."""
    import sentencepiece
    import transformers

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=4000, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
    pieces = ["</s>", "<unk>", *pieces]
    pieces += [f"unused{number}" for number in range(len(pieces), size - 1)]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, "<pad>"])}
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(model.getvalue())
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokens = transformers.MarianTokenizer(*files, source_lang="en", target_lang="de")
    stacks = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}
    config = transformers.MarianConfig(
        **{f"{side}_{name}": x for side in ("encoder", "decoder") for name, x in stacks.items()},
        vocab_size=size,
        d_model=512,
        max_position_embeddings=512,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
        forced_eos_token_id=None,
    )
    model = transformers.MarianMTModel(config)
    model.generation_config.bad_words_ids = [[size - 1]]
    model.generation_config.num_beams = BEAMS
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)


# -------------------------------------------------------------------------------------- contenders


def forward(folder, lines, sentences):
    """A forward pass through BERT-base."""
    import tensorflow as tf
    import torch
    import transformers

    import zoo

    save_encoder(folder, lines)
    core = zoo.load(folder).core
    peer = transformers.BertModel.from_pretrained(folder)
    ids = np.random.default_rng(0).integers(5, 8000, (BATCH, LENGTH), "int32")
    tensor = torch.tensor(ids, dtype=torch.int64)

    def transformed():
        return normalized_mean(peer(tensor).last_hidden_state, torch.ones_like(tensor)).numpy()

    def by(jit_compile):
        function = tf.function(core, jit_compile=jit_compile, autograph=False)
        return lambda: function(tf.constant(ids)).numpy()

    return {"transformers": transformed, "zoo": by(False), "zoo, XLA": by(True)}


def embed(folder, lines, sentences):
    """Embeddings of strings by a model of the size of all-MiniLM-L6-v2."""
    import transformers

    import zoo

    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
    save_encoder(folder, lines, **sizes)
    model = zoo.load(folder)
    peer = transformers.BertModel.from_pretrained(folder)
    tokens = transformers.AutoTokenizer.from_pretrained(folder)

    def transformed():
        """Embeds the sentences as `SentenceTransformer.encode` does."""
        order = np.argsort([-len(sentence) for sentence in sentences], kind="stable")
        found = np.empty((len(sentences), 384), "float32")
        for first in range(0, len(order), 32):
            places = order[first : first + 32]
            batch = tokens([sentences[x] for x in places], padding=True, return_tensors="pt")
            vectors = normalized_mean(peer(**batch).last_hidden_state, batch["attention_mask"])
            found[places] = vectors.numpy()
        return found

    return {"transformers": transformed, "zoo": lambda: model.embed(sentences)}


def normalized_mean(states, mask):
    import torch

    mask = mask[..., None].to(states.dtype)
    mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, dim=1)


def generate(folder, lines, sentences, rows):
    """Greedy generation with GPT-2, with the same number of tokens for each text."""
    import transformers

    import zoo

    save_gpt2(folder, lines)
    model = zoo.load(folder)
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder)
    tokens = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokens.pad_token = tokens.eos_token
    prompts = sentences[:rows]

    def transformed():
        inputs = tokens(prompts, padding=True, return_tensors="pt")
        length = inputs["input_ids"].shape[1]
        options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "pad_token_id": 0}
        found = peer.generate(**inputs, **options)
        return tokens.batch_decode(found[:, length:], skip_special_tokens=True)

    def by(jit_compile):
        options = {"max_length": NEW_TOKENS, "sampler": "greedy", "jit_compile": jit_compile}
        return lambda: model.generate(prompts, **options)

    return {"transformers": transformed, "zoo": by(False), "zoo, XLA": by(True)}


def translate(folder, lines, sentences, rows):
    """Translation with a model of the size of opus-mt, with 4 beams."""
    import transformers

    import zoo

    save_marian(folder, lines)
    model = zoo.load(folder)
    peer = transformers.MarianMTModel.from_pretrained(folder)
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    sources = sentences[:rows]

    def transformed():
        inputs = tokens(sources, padding=True, return_tensors="pt")
        found = peer.generate(**inputs, max_new_tokens=NEW_TOKENS)
        return tokens.batch_decode(found, skip_special_tokens=True)

    def by(jit_compile):
        options = {"max_length": NEW_TOKENS, "jit_compile": jit_compile}
        return lambda: model.translate(sources, **options)

    return {"transformers": transformed, "zoo": by(False), "zoo, XLA": by(True)}


# --------------------------------------------------------------------------------------- measuring


def take_turns(title, contenders, rounds):
    """Calls the contenders in turn, and prints medians and ratios.

    Raises:
        AssertionError: If they give different vectors or texts.
    """
    found = {label: run() for label, run in contenders.items()}
    expected = found["transformers"]
    for label, result in found.items():
        if isinstance(result, np.ndarray):
            np.testing.assert_allclose(result, expected, atol=1e-4, err_msg=label)
        elif list(map(str.strip, result)) != list(map(str.strip, expected)):
            raise AssertionError(f"{title}: {label} gives {result}, transformers {expected}.")
    seconds = {label: [] for label in contenders}
    for _ in range(rounds):
        for label, run in contenders.items():
            start = time.perf_counter()
            run()
            seconds[label].append(time.perf_counter() - start)
    peer = statistics.median(seconds["transformers"])
    for label, each in seconds.items():
        median = statistics.median(each)
        click.echo(
            f"{title:28} {label:13} {median:7.3f} s ({min(each):.3f} to {max(each):.3f})  "
            f"ratio {peer / median:5.2f}"
        )


def measure_speed(data_dir, names, rounds, threads):
    """Prints the table of the first command."""
    import tensorflow as tf
    import torch

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    lines, sentences = (
        gzip.decompress((data_dir / f"raw/{name}.en.gz").read_bytes()).decode().splitlines()
        for name in ("train", "test_2016_flickr")
    )
    cases = {
        f"forward, {BATCH} x {LENGTH}": forward,
        f"embed, {len(sentences)} sentences": embed,
        f"generate, {NEW_TOKENS} tokens, batch 1": functools.partial(generate, rows=1),
        f"generate, {NEW_TOKENS} tokens, batch 8": functools.partial(generate, rows=8),
        f"translate, {BEAMS} beams, batch 1": functools.partial(translate, rows=1),
        f"translate, {BEAMS} beams, batch 8": functools.partial(translate, rows=8),
    }
    for title, case in cases.items():
        if title.split(",")[0] in names:
            with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
                contenders = case(pathlib.Path(folder), lines, sentences)
                take_turns(title, contenders, rounds)


def measure_loading(rounds):
    """Prints the time and peak memory of loading GPT-2."""
    with tempfile.TemporaryDirectory() as folder:
        save_gpt2(pathlib.Path(folder), ["A man rides a bike."])
        weights = (pathlib.Path(folder) / "model.safetensors").stat().st_size
        found = {label: [] for label in OF_LOADING}
        for _, (label, (imports, load)) in itertools.product(range(rounds), OF_LOADING.items()):
            code = LOAD.format(imports=imports, load=load.format(folder=folder))
            process = [sys.executable, "-c", code]
            run = subprocess.run(process, check=True, capture_output=True, text=True)
            found[label].append(list(map(float, run.stdout.split()[-3:])))
    click.echo(f"weights {weights / 1e6:.0f} MB")
    for label, numbers in found.items():
        seconds, base, peak = map(statistics.median, zip(*numbers, strict=True))
        click.echo(
            f"{label:13} {seconds:6.2f} s  peak {peak / 1e6:.0f} MB, {base / 1e6:.0f} MB before; "
            f"increase {(peak - base) / weights:.2f} times the weights"
        )


@click.command()
@click.option(
    "--data-dir", type=click.Path(path_type=pathlib.Path), help="Multi30k folder, with raw/*.en.gz."
)
@click.option("--loading", is_flag=True, help="Measure loading GPT-2.")
@click.option("--case", "names", multiple=True, type=click.Choice(CASES), help="All by default.")
@click.option("--rounds", default=9, show_default=True, help="Measured rounds, after a warm-up.")
@click.option("--threads", default=2, show_default=True, help="Threads of each contender.")
def main(data_dir, loading, names, rounds, threads):
    """Compare the speed of checkpoints with transformers."""
    click.echo(f"{os.cpu_count()} cores, {threads} threads, load {os.getloadavg()[0]:.1f}")
    if loading:
        measure_loading(rounds)
    elif data_dir is None:
        raise click.UsageError("Give --data-dir, or --loading.")
    else:
        measure_speed(data_dir, names or CASES, rounds, threads)


if __name__ == "__main__":
    main()
