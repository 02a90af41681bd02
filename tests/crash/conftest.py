"""One fake provider per test process; it lives on while gateways die."""

import subprocess
import sys

import pytest

import nursery as nurseries


@pytest.fixture(scope="session")
def model_url():
    argv = [sys.executable, "-m", "palinurus.testing.server", "--port", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            yield server.stdout.readline().decode().strip()
        finally:
            server.kill()


@pytest.fixture(scope="session")
def nursery():
    return nurseries.nursery()
