"""One fake provider per test process; it lives on while gateways die."""

import re
import subprocess
import sys
from collections import Counter

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


# What a sentence of the judges means. Whatever is neither is wrong all the same.
DOUBLED = re.compile(r"\b(?:[2-9]|\d{2,}) times|twice|\b(?:[2-9]|\d{2,}) (?:beats|results)")
LOST = re.compile(
    r"never answered|forgotten|still |nobody (?:was told|saw)|\b0 times|did not end|is missing|not on the path"
)


@pytest.fixture
def record_faults(record_property):
    """Takes what is wrong after a crash; how many were lost and doubled is said at the end."""

    def record(wrong):
        doubled = [text for text in wrong if DOUBLED.search(text)]
        lost = [text for text in wrong if text not in doubled and LOST.search(text)]
        for name, found in (("lost", lost), ("doubled", doubled), ("otherwise wrong", wrong)):
            record_property(f"crash {name}", len(found) - (len(lost) + len(doubled)) * (found is wrong))

    return record


def pytest_terminal_summary(terminalreporter):
    count, cases = Counter(), 0
    for report in [r for name in ("passed", "failed") for r in terminalreporter.stats.get(name, ())]:
        found = [(name, n) for name, n in report.user_properties if name.startswith("crash ")]
        cases += bool(found) or (report.failed and "test_sweep" in report.nodeid)
        for name, number in found or (
            [("crash otherwise wrong", 1)] if "test_sweep" in report.nodeid and report.failed else []
        ):
            count[name] += number
    if cases:
        said = ", ".join(f"{name} {count[f'crash {name}']}" for name in ("lost", "doubled", "otherwise wrong"))
        terminalreporter.line(f"kill -9: {cases} cases, {said}")
