"""`python -m zoo.learning FOLDER`: does the job of a folder, on the backend of KERAS_BACKEND."""

import sys

from zoo.learning.job import work

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"{__doc__}\nReceived: {sys.argv[1:]}")
    try:
        work(sys.argv[1])
    except FileNotFoundError as error:
        sys.exit(str(error))
