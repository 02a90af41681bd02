"""Names for running commands."""

from __future__ import annotations

import re

from palinurus.tools.commands.table import NAME_LENGTH, make_command_name


def test_two_short_words_that_nobody_has() -> None:
    taken: set[str] = set()
    for _ in range(500):
        name = make_command_name(taken)
        assert re.fullmatch(r"[a-z]{3,5}-[a-z]{3,4}|[a-z]{3,4}-\d{1,4}", name) and name not in taken
        taken.add(name)
    assert sum(len(name) <= NAME_LENGTH and not name[-1].isdigit() for name in taken) > 450
