from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.prompt.bootstrap import (
    BOOTSTRAP_FILES,
    BootstrapFile,
    from_hook_payload,
    inject_files,
    list_bootstrap_names,
    shorten_file,
    to_hook_payload,
)


def raw(name: str, text: str | None = "words", refused: str = "") -> BootstrapFile:
    return BootstrapFile(name, f"/w/{name}", text, refused)


@pytest.mark.seed(238)
def test_the_set() -> None:
    everything = {
        "AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md", "MEMORY.md",
    }  # fmt: skip
    assert set(list_bootstrap_names("main", True)) == everything


@pytest.mark.seed(253)
def test_sub_agents_get_two() -> None:
    assert set(list_bootstrap_names("subagent", True)) == {"AGENTS.md", "TOOLS.md"}


@pytest.mark.seed(243)
def test_no_heartbeat_no_heartbeat_file() -> None:
    assert "HEARTBEAT.md" not in list_bootstrap_names("main", False)


@pytest.mark.seed(248, 267)
def test_a_long_file_keeps_both_ends_and_points_at_itself() -> None:
    text = "BEGIN " + "x" * 5000 + " END"
    made = inject_files([raw("USER.md", text)], 1000, 60_000)
    file, weight = made.files[0], made.weights[0]
    assert file.truncated
    assert len(file.text) <= 1000
    assert file.text.startswith("BEGIN") and file.text.endswith("END")
    assert "USER.md is shortened here: read the file" in file.text
    assert (weight.raw, weight.injected, weight.state) == (len(text), len(file.text), "shortened")


@pytest.mark.seed(249, 268)
def test_a_missing_file_is_one_line() -> None:
    made = inject_files(
        [BootstrapFile("SOUL.md", "/odd\ndir/SOUL.md", None), raw("MEMORY.md", None), raw("BOOTSTRAP.md", None)],
        99,
        999,
    )
    assert [(f.name, f.missing) for f in made.files] == [("SOUL.md", True)]
    assert made.files[0].text == "[MISSING] Expected at: /odd dir/SOUL.md"
    assert [w.state for w in made.weights] == ["missing", "absent", "absent"]


@pytest.mark.seed(266)
def test_blank_files_are_skipped() -> None:
    made = inject_files([raw("SOUL.md", " \n\t\n"), raw("HEARTBEAT.md", "# Beat\n<!-- a\nb -->\n- [ ]\n")], 99, 999)
    assert made.files == ()
    assert [w.state for w in made.weights] == ["blank", "blank"]
    assert inject_files([raw("HEARTBEAT.md", "# Beat\n- look")], 99, 999).files != ()


@pytest.mark.seed(270)
def test_a_first_conversation_is_pending_while_its_file_is_there() -> None:
    assert inject_files([raw("BOOTSTRAP.md")], 99, 999).pending
    assert not inject_files([raw("BOOTSTRAP.md", "  ")], 99, 999).pending
    assert not inject_files([raw("BOOTSTRAP.md", None)], 99, 999).pending


def test_files_are_filled_in_the_order_of_the_prompt() -> None:
    made = inject_files([raw("HEARTBEAT.md", "h" * 90), raw("x.md", "x" * 90), raw("AGENTS.md", "a" * 90)], 99, 190)
    assert [(f.name, bool(f.text)) for f in made.files] == [
        ("AGENTS.md", True),
        ("HEARTBEAT.md", True),
        ("x.md", False),
    ]
    assert made.files[2].truncated  # so that the notice names it
    assert made.weights[2].state == "left out"


def test_what_may_not_be_read_says_so() -> None:
    made = inject_files([raw("AGENTS.md", None, "AGENTS.md is a link that leaves its directory")], 99, 999)
    assert made.files[0].text == "[NOT READ] AGENTS.md is a link that leaves its directory"
    assert made.weights[0].state == "refused"


@pytest.mark.seed(246, 247)
@given(st.lists(st.integers(0, 400), min_size=8, max_size=8), st.integers(1, 300), st.integers(1, 900))
def test_limits_hold(sizes: list[int], limit: int, total: int) -> None:
    made = inject_files(
        [raw(name, "w" * size) for name, size in zip(BOOTSTRAP_FILES, sizes, strict=True)], limit, total
    )
    assert all(len(f.text) <= limit for f in made.files)
    assert sum(len(f.text) for f in made.files) <= total
    assert [w.injected for w in made.weights if w.injected] == [len(f.text) for f in made.files if f.text]


def test_near_the_limit_is_told() -> None:
    assert [inject_files([raw("SOUL.md", "w" * n)], 100, 999).weights[0].near for n in (85, 86, 100)] == [
        False,
        True,
        True,
    ]


def test_no_room_for_the_mark_means_nothing() -> None:
    assert shorten_file("x" * 500, "SOUL.md", 64) == ""


@pytest.mark.seed(254)
def test_hooks_may_replace_the_list() -> None:
    seen = to_hook_payload([raw("SOUL.md"), raw("USER.md", None)])
    assert seen[1] == {"name": "USER.md", "path": "/w/USER.md", "content": "", "missing": True}
    assert from_hook_payload([*seen[:1], {"name": "x.md", "content": "new"}, {"no": 1}, 7]) == (
        raw("SOUL.md"),
        BootstrapFile("x.md", "x.md", "new"),
    )
    assert from_hook_payload([]) == ()
    assert from_hook_payload(None) is None
