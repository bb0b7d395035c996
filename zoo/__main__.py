"""`python -m zoo`."""

from zoo.cli import main

main(prog_name="python -m zoo")
