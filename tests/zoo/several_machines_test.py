"""The guide's training loop for several machines: two of them learn as one."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

GUIDE = pathlib.Path(__file__).parents[2] / "notebooks" / "reference" / "distributed.md"


def free_ports(number):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.mark.full
def test_two_machines_learn_as_one():
    program = re.search(
        r"```py\n(import keras.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL
    )[1]
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    configs = [
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        for index in range(2)
    ]
    environments = [{"TF_CONFIG": json.dumps(config)} for config in configs]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for environment in [*environments, {}]
    ]
    outputs = [process.communicate(timeout=600) for process in processes]
    for process, (_, told) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, told.decode()
    first, second, alone = (np.loadtxt(said.decode().splitlines()) for said, _ in outputs)
    assert alone.shape == (4,)
    assert alone[-1] < alone[0]
    np.testing.assert_allclose(first, alone, rtol=1e-4)
    np.testing.assert_array_equal(first, second)
