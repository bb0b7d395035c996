"""Run the main speed benchmarks on this machine and write their output to a page.

python -m benchmarks [--full] [--output FOLDER]

Runs one benchmark after the other, each in its own process, and writes the machine, the versions of
all contenders and every table to FOLDER/DATE-quick.md, with plots next to it. By default, each
benchmark is as short as it can be and still be meaningful; `--full` takes many times as long and
writes FOLDER/DATE.md. A benchmark whose peer libraries are not installed is skipped with a message:
`pip install ".[benchmarks]"` installs them all.
"""

import datetime
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

import click

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("tensorflow", "keras", "numpy", "keras-hub", "ctranslate2", "torch", "transformers")
QUICK_CASES = ("additive", "multi-head 2048")
FULL_CASES = (
    *QUICK_CASES,
    "causal 2048",
    "multi-head 512",
    "multi-head 1024",
    "multi-head 4096",
    "window 4096",
)
QUICK_STEPS = ("import keras", "zoo.load", "translate")


def each(option, names):
    return [part for name in names for part in (option, name)]


# Title; module; packages that it needs; arguments of a quick run; arguments of a full run.
SECTIONS = [
    (
        "Attention, forward and backward, compared with Keras layers",
        "attention_speed",
        ["matplotlib"],
        [*each("--case", QUICK_CASES), "--rounds", "1", "--plot", "{stem}-attention.png"],
        [*each("--case", FULL_CASES), "--rounds", "9", "--plot", "{stem}-attention.png"],
    ),
    (
        "Transformer decoding compared with CTranslate2 and KerasHub",
        "decoding_speed",
        ["ctranslate2", "keras_hub"],
        ["--threads", "1", "--rounds", "2", "--tokens", "24", "--batch", "8"],
        ["--threads", "1"],
    ),
    (
        "A training step of a language model compared with keras.layers and PyTorch",
        "training_speed",
        ["torch"],
        ["--dtype", "bfloat16", "--rounds", "2", "--steps", "2"],
        ["--rounds", "12"],
    ),
    (
        "From starting Python to the first translation",
        "starting_speed",
        [],
        [*each("--step", QUICK_STEPS), "--rounds", "1"],
        ["--rounds", "9"],
    ),
    (
        "A server under load, with and without batching",
        "serving_load",
        ["starlette", "uvicorn", "prometheus_client"],
        ["transformer_nmt_multi30k_en_de"],
        ["transformer_nmt_multi30k_en_de", "--full"],
    ),
]


def machine():
    """Yields lines about this machine and the installed packages."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield f"- {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB"
    yield f"- {platform.system()} {platform.release()}, Python {platform.python_version()}"
    for package in PACKAGES:
        try:
            yield f"- {package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"- {package} is not installed"
    commit = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(commit, cwd=ROOT, capture_output=True, text=True, check=False)
    yield f"- keras-attention-zoo at commit {found.stdout.strip() or 'unknown'}"
    yield f"- load average at the start {os.getloadavg()[0]:.1f}; below 0.5 on an idle machine"


def _processor():
    try:
        told = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return re.search(r"model name\s*: (.*)", told)[1]
    except (OSError, TypeError):  # not Linux, or another kind of processor
        return platform.processor() or platform.machine()


def run(module, arguments):
    """Runs a benchmark and echoes its output; returns the output and the exit status."""
    command = [sys.executable, "-u", "-m", f"benchmarks.{module}", *arguments]
    lines = []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8"
        ) as process,
    ):
        for line in process.stdout:
            click.echo(line, nl=False)
            lines.append(line)
        if process.wait():
            errors.seek(0)
            click.echo(errors.read()[-2000:], err=True)
    return "".join(lines), process.returncode


@click.command()
@click.option("--full/--quick", help="Run many rounds, or few.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    default=ROOT / "benchmarks" / "results",
    help="Folder for the page and its plots.",
)
def main(full, output):
    """Run the main benchmarks and write their output to a page."""
    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    date = datetime.date.today().isoformat()
    stem = output / f"{date}{'' if full else '-quick'}"
    form = "full" if full else "quick"
    parts = [f"# Benchmarks of {date}, {form}", "\n".join(machine())]
    failed = []
    for title, module, needs, *arguments in SECTIONS:
        missing = [name for name in needs if importlib.util.find_spec(name) is None]
        asked = [each.format(stem=stem.name) for each in arguments[full]]
        command = " ".join(f"'{x}'" if " " in x else x for x in ["benchmarks." + module, *asked])
        parts.append(f"## {title}\n\n`python -m {command}`")
        click.secho(f"{title}\n", bold=True)
        if missing:
            parts.append(f"Skipped: {', '.join(missing)} is not installed.")
            click.echo(parts[-1])
            continue
        given = [each.format(stem=stem) for each in arguments[full]]
        start = time.perf_counter()
        printed, status = run(module, given)
        parts.append(f"```text\n{printed}```\n\nTook {time.perf_counter() - start:.0f} s.")
        if status:
            failed.append(module)
            parts.append(f"Failed with exit status {status}.")
        for picture in [each for each in asked if each.endswith(".png")]:
            if (output / picture).is_file():
                parts.append(f"![{title}]({picture})")
    page = stem.with_name(f"{stem.name}.md")
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    click.echo(f"Written to {page}.")
    if failed:
        raise click.ClickException(f"Some benchmarks failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
