"""`pal models pull`: names, and what progress looks like."""

from __future__ import annotations

import io

import pytest

from palinurus.cli.models.pull import find_weights, format_progress, make_progress_drawer, run_models_pull
from palinurus.errors import BadRequest
from palinurus.providers.local.fetch import FetchProgress
from palinurus.providers.local.weights import DEFAULT_WEIGHTS, WEIGHTS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_names() -> None:
    assert find_weights("smollm2-135m") is WEIGHTS["smollm2-135m"]
    assert find_weights("local/Qwen2.5-coder-1.5b") is WEIGHTS[DEFAULT_WEIGHTS]
    with pytest.raises(BadRequest) as caught:
        run_models_pull(["smolm-135"])
    assert "smollm2-135m" in caught.value.fix


def test_the_bar() -> None:
    text = format_progress(FetchProgress("fetching", 3, 22, 500_000_000, 1_000_000_000), 10.0, 100_000_000)
    assert text == "[############            ] fetching part 3/22  500 MB of 1.00 GB  10 MB/s"
    assert "/s" not in format_progress(FetchProgress("checking", 1, 22, 0, 100), 10.0, 0)


def test_a_terminal_gets_a_bar_and_a_file_gets_lines() -> None:
    ticks = iter(range(100))
    bar, lines = Terminal(), io.StringIO()
    for out in (bar, lines):
        show = make_progress_drawer(out, WEIGHTS[DEFAULT_WEIGHTS], lambda: float(next(ticks)))
        for at in (
            FetchProgress("fetching", 1, 2, 0, 10**9),
            FetchProgress("fetching", 1, 2, 5 * 10**8, 10**9),
            FetchProgress("fetching", 2, 2, 6 * 10**8, 10**9),
            FetchProgress("done", 2, 2, 10**9, 10**9),
        ):
            show(at)
    assert bar.getvalue().count("\r") == 4
    assert bar.getvalue().endswith("\x1b[K\n")
    assert lines.getvalue().splitlines() == [
        f"{DEFAULT_WEIGHTS}: fetching part 1 of 2, 0 MB there",
        f"{DEFAULT_WEIGHTS}: fetching part 2 of 2, 600 MB there",
    ]


def test_the_help_says_sizes_licences_and_that_there_are_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_models_pull(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "1.12 GB, Apache-2.0" in said and "98 MB, Apache-2.0" in said and "carries no other" in said
