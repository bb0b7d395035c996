"""`python -m zoo`: quiet TensorFlow down before anything imports it."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from zoo.cli import main  # noqa: E402

main()
