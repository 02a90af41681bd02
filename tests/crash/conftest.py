"""One fake provider per test process; it lives on while gateways die."""

import re
import subprocess
from collections import Counter

import pytest

import nursery as nurseries


@pytest.fixture(scope="session")
def model_url():
    argv = ("-m", "palinurus.testing.server", "--port", "0")
    with nurseries.PythonProgram(*argv, stdout=subprocess.PIPE) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


@pytest.fixture
def nursery():
    return nurseries.nursery()


# What a sentence of the judges means: the first that fits. Whatever none fits is wrong all the same.
FAULTS = {
    "stopped but answered": re.compile(r"stopped but"),
    "doubled": re.compile(r"\b(?:[2-9]|\d{2,}) times|twice|\b(?:[2-9]|\d{2,}) (?:beats|results)"),
    "lost": re.compile(
        r"never answered|forgotten|still |nobody (?:was told|saw)|\b0 times|did not end|is missing|not on the path"
    ),
    "otherwise wrong": re.compile(""),
}
SAID = ("lost", "doubled", "stopped but answered", "otherwise wrong")


@pytest.fixture
def record_faults(record_property):
    """Takes what is wrong after a crash at a point of a scenario; how many of each kind is said at the end."""

    def record(scenario, point, wrong):
        record_property("crash", (scenario, point.partition(":")[0]))
        for text in wrong:
            kind = next(name for name, pattern in FAULTS.items() if pattern.search(text))
            record_property(f"crash {kind}", 1)

    return record


def pytest_terminal_summary(terminalreporter):
    count, cases, broken = Counter(), [], 0
    for report in [r for name in ("passed", "failed") for r in terminalreporter.stats.get(name, ())]:
        found = [(name, value) for name, value in report.user_properties if name.startswith("crash")]
        cases += [value for name, value in found if name == "crash"]
        count.update(name for name, _ in found)
        if report.failed and "test_sweep" in report.nodeid and len(found) < 2:
            broken += 1  # it did not come to a judgement, or never came by its point
    if cases or broken:
        count["crash otherwise wrong"] += broken
        said = ", ".join(f"{name} {count[f'crash {name}']}" for name in SAID)
        points, scenarios = ({case[at] for case in cases} for at in (1, 0))
        where = f"{len(points)} points in {len(scenarios)} scenarios"
        terminalreporter.line(f"kill -9: {len(cases)} cases, {where}: {said}")
