"""What maintenance plans: ages, counts, archives, bytes, and what it never touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.config.sections.schedule import UpkeepSettings
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.sessions.files import SessionFile
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.upkeep import UpkeepAction, compute_high_water, is_protected, plan_upkeep, sum_freed_bytes
from palinurus.store.port import SessionRow


def rules_for_all(**fields: Any) -> UpkeepSettings:
    """As if the owner had set every rule."""
    return UpkeepSettings(**{"people": frozenset({"age", "count", "archive"}), **fields})


DAY = 86_400_000
NOW = 100 * DAY
NONE = rules_for_all(prune_after=None, max_entries=10**6, archive_after=None, cron_after=None)
FOLDER = "agents/main/sessions"
RESULT = "result-0123456789abcdef"


def row(rest: str, age: float, ident: str = "", before: tuple[str, ...] = ()) -> SessionRow:
    key = SessionKey("main", rest)
    ident = ident or rest.replace(":", "_")
    return SessionRecord(sessionId=ident, updatedAt=NOW - int(age * DAY), usageFamilySessionIds=before).row(key)


def file(name: str, age: float = 0, size: int = 10) -> SessionFile:
    return SessionFile(f"{FOLDER}/{name}", size, NOW - int(age * DAY))


def gone(actions: Sequence[UpkeepAction]) -> list[str]:
    return sorted(a.key.removeprefix("agent:main:") or a.path.removeprefix(f"{FOLDER}/") for a in actions)


def test_old_rows_go_and_their_files_are_archived() -> None:
    rows = [row("direct:1", 31), row("direct:2", 29), row("hook:a", 40), row("subagent:b", 40)]
    made = plan_upkeep(rows, [file("direct_1.jsonl", 31)], rules_for_all(), NOW)
    assert gone(made.actions) == ["direct:1", "hook:a", "subagent:b"]
    action = next(a for a in made.actions if a.key.endswith("direct:1"))
    assert (action.reason, action.path, action.keep) == ("old", f"{FOLDER}/direct_1.jsonl", True)
    assert sum_freed_bytes(made.actions) == 0


@pytest.mark.parametrize(
    ("rest", "kept"),
    [
        ("main", True),
        ("telegram:group:-100", True),
        ("telegram:group:-100:topic:5", True),
        ("discord:channel:1:thread:2", True),
        ("matrix:room:r", True),
        ("main:thread:7", True),
        ("direct:1", False),
        ("telegram:direct:1", False),
        ("cron:job", False),
        ("hook:a", False),
        ("acp:a", False),
        ("subagent:a", False),
        ("bench", False),
    ],
)
def test_protected(rest: str, kept: bool) -> None:
    assert is_protected(SessionKey("main", rest)) == kept
    assert (not plan_upkeep([row(rest, 999)], [], rules_for_all(), NOW).actions) == kept


def test_runs_of_jobs_go_after_a_day() -> None:
    rows = [row("cron:job:run:1", 2), row("cron:job:run:2", 0.5), row("cron:job", 2)]
    assert gone(plan_upkeep(rows, [], rules_for_all(), NOW).actions) == ["cron:job:run:1"]
    assert plan_upkeep(rows, [], NONE, NOW).actions == ()


@pytest.mark.parametrize(("limit", "water"), [(1, 2), (49, 50), (50, 75), (250, 275), (500, 550), (1000, 1100)])
def test_max_entries_is_cleaned_in_batches(limit: int, water: int) -> None:
    assert compute_high_water(limit) == water


def test_max_entries() -> None:
    rules = rules_for_all(max_entries=10, prune_after=None)
    rows = [row(f"direct:{n:02}", n / 100) for n in range(12)]
    assert len(plan_upkeep(rows[:11], [], rules, NOW).actions) == 0  # at the high-water mark: let be
    assert gone(plan_upkeep(rows, [], rules, NOW).actions) == ["direct:10", "direct:11"]
    assert gone(plan_upkeep(rows, [], rules, NOW, busy={rows[11].key}).actions) == ["direct:09", "direct:10"]
    groups = [row(f"telegram:group:{n}", n) for n in range(40)]
    assert plan_upkeep(groups, [], rules, NOW).actions == ()


def test_each_agent_counts_for_itself() -> None:
    rules = rules_for_all(max_entries=2, prune_after=None)
    rows = [
        SessionRecord(sessionId="s", updatedAt=n).row(SessionKey(agent, f"direct:{n}"))
        for agent in "ab"
        for n in range(3)
    ]
    assert plan_upkeep(rows, [], rules, NOW).actions == ()


def test_archives_and_orphans() -> None:
    files = [
        file("live.jsonl", 99),
        file("live.jsonl.bad-1", 99),
        file("gone.jsonl", 31),
        file("gone.jsonl.bad-1", 31),
        file("fresh.jsonl", 29),
        file("a.jsonl.reset.1970-03-01T00-00-00.000Z", 0),  # 41 days by its name
        file("b.jsonl.deleted.1970-04-10T00-00-00.000Z", 99),
        file("c.jsonl.part-77", 2),
        file("d.jsonl.import-77", 0.5),
        file("sessions.json", 999),
        file("notes.txt", 999),
        file("live.jsonl.lock", 999),
    ]
    rows = [row("live", 0, before=("gone", "fresh"))]
    made = plan_upkeep(rows, files, rules_for_all(), NOW)
    assert gone(made.actions) == [
        "a.jsonl.reset.1970-03-01T00-00-00.000Z",
        "c.jsonl.part-77",
        "gone.jsonl",
        "gone.jsonl.bad-1",
    ]
    assert gone(plan_upkeep(rows, files, rules_for_all(archive_after=None), NOW).actions) == ["c.jsonl.part-77"]


def test_a_transcript_that_no_row_knows_stays_whatever_its_age() -> None:
    """The row may be what was lost: a new database knows nothing of what people said."""
    files = [file("lost.jsonl", 999), file("lost.jsonl.bad-1", 999), file(f"lost.jsonl.{RESULT}", 999)]
    assert plan_upkeep([], files[:2], rules_for_all(), NOW).actions == ()
    assert gone(plan_upkeep([], files[1:], rules_for_all(), NOW).actions) == sorted(f.name for f in files[1:])


def test_the_disk_takes_an_unknown_transcript_no_sooner_than_a_session_of_its_age() -> None:
    files = [file("lost.jsonl", 5, 50), file("lost.jsonl.bad-1", 1, 1), file("direct_1.jsonl", 6, 50)]
    rules = rules_for_all(prune_after=None, max_disk=60)
    assert gone(plan_upkeep([row("direct:1", 6)], files, rules, NOW).actions) == ["direct:1"]
    assert gone(plan_upkeep([row("direct:1", 4)], files, rules, NOW).actions) == ["lost.jsonl", "lost.jsonl.bad-1"]


def test_a_file_of_two_sessions_stays_while_one_is_left() -> None:
    rows = [row("direct:1", 40, "shared"), row("direct:2", 0, "shared")]
    (action,) = plan_upkeep(rows, [file("shared.jsonl", 40)], rules_for_all(), NOW).actions
    assert (action.key, action.path) == ("agent:main:direct:1", "")


def test_a_broken_row_is_left_to_people() -> None:
    broken = SessionRow("agent:main:direct:1", "main", "sid", 0, b"{broken")
    assert plan_upkeep([broken], [file("sid.jsonl", 99)], rules_for_all(), NOW).actions == ()


def test_disk_takes_what_nobody_uses_first_then_the_oldest() -> None:
    rules = rules_for_all(prune_after=None, archive_after=None, max_disk=100, high_water=50)
    files = [
        file("orphan.jsonl", 3, 20),
        file("x.jsonl.reset.1970-04-10T00-00-00.000Z", 1, 20),
        file("young.jsonl", 0, 20),
        file("direct_1.jsonl", 5, 20),
        file("direct_2.jsonl", 4, 20),
        file("main.jsonl", 9, 20),
    ]
    rows = [row("direct:1", 5), row("direct:2", 4), row("main", 9)]
    made = plan_upkeep(rows, files, rules, NOW)
    assert gone(made.actions) == [
        "direct:1",
        "direct:2",
        "orphan.jsonl",
        "x.jsonl.reset.1970-04-10T00-00-00.000Z",
    ]
    assert all(not a.keep for a in made.actions)
    assert made.over == ()
    assert plan_upkeep(rows, files[1:], rules, NOW).actions == ()  # at the limit, not over it
    assert plan_upkeep([row("main", 9)], [file("main.jsonl", 9, 500)], rules, NOW).over == ("main",)


def test_disk_makes_no_archive_it_has_no_room_for() -> None:
    rules = rules_for_all(max_disk=100, high_water=80)
    made = plan_upkeep([row("direct:1", 40)], [file("direct_1.jsonl", 40, 200)], rules, NOW)
    assert [(a.key, a.keep) for a in made.actions] == [("agent:main:direct:1", False)]


# --- anything -------------------------------------------------------------------------------------------------

RESTS = ["main", "telegram:group:1", "main:thread:2", *(f"direct:{n}" for n in range(6)), "cron:j:run:1", "hook:h"]
STAMPS = ["1970-01-02T00-00-00.000Z", "1970-04-01T00-00-00.000Z", "1970-04-10T20-00-00.000Z"]
NAMES = [
    *(f"{rest.replace(':', '_')}.jsonl" for rest in RESTS),
    *(f"o{n}.jsonl" for n in range(3)),
    *(f"z.jsonl.reset.{stamp}" for stamp in STAMPS),
    "main.jsonl.bad-1",
    "o1.jsonl.bad-1",
    "t.jsonl.part-1",
    "other.txt",
]
ROWS = st.dictionaries(st.sampled_from(RESTS), st.floats(0, 90)).map(lambda d: [row(r, a) for r, a in d.items()])
FILES = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.floats(0, 90), st.integers(0, 50))).map(
    lambda d: [file(n, age, size) for n, (age, size) in d.items()]
)
RULES = st.builds(
    UpkeepSettings,
    prune_after=st.sampled_from([None, 30 * 86_400.0]),
    max_entries=st.integers(1, 8),
    archive_after=st.sampled_from([None, 10 * 86_400.0]),
    max_disk=st.sampled_from([None, 60]),
    high_water=st.sampled_from([None, 40]),
)


def done(
    rows: list[SessionRow], files: list[SessionFile], actions: Sequence[UpkeepAction], torn: bool = False
) -> tuple[list[SessionRow], list[SessionFile]]:
    """The state after these actions; `torn`: killed in the last one, after its file and before its row."""
    for n, action in enumerate(actions):
        if not (torn and n == len(actions) - 1):
            rows = [r for r in rows if not action.key or r.key != action.key]
        kept = [f for f in files if f.path == action.path and action.keep]
        files = [f for f in files if f.path != action.path]
        files += [f._replace(path=f"{f.path}.deleted.1970-04-11T00-00-00.000Z") for f in kept]
    return rows, files


@settings(max_examples=200, deadline=None)
@given(
    ROWS, FILES, RULES, st.sets(st.sampled_from([f"agent:main:{r}" for r in RESTS])), st.integers(0, 30), st.booleans()
)
def test_what_must_stay_stays_and_it_may_stop_anywhere(
    rows: list[SessionRow], files: list[SessionFile], rules: UpkeepSettings, busy: set[str], stop: int, torn: bool
) -> None:
    made = plan_upkeep(rows, files, rules, NOW, busy)
    assert len({(a.key, a.path) for a in made.actions}) == len(made.actions)
    # killed after `stop` actions, planned again, done
    some = done(rows, files, made.actions[:stop], torn)
    then = plan_upkeep(*some, rules, NOW, busy)
    left, there = done(*some, then.actions)
    assert plan_upkeep(left, there, rules, NOW, busy).actions == ()
    names = {r.key for r in left}
    for r in rows:
        key = parse_session_key(r.key)
        assert key is not None
        if is_protected(key) or r.key in busy:
            assert r.key in names
    paths = {f.path for f in there}
    before = {f.path for f in files}
    for r in left:  # a session that stays keeps its transcript
        path = SessionRecord.decode(r.data).path("main")
        assert path in paths or path not in before
    assert f"{FOLDER}/other.txt" in paths or f"{FOLDER}/other.txt" not in before
    if rules.max_disk is not None and not then.over:
        assert sum(f.size for f in there) <= rules.max_disk


def test_whole_results_go_with_their_session_or_when_they_are_old() -> None:
    rows = [row("main", 1, "m")]
    files = [
        file("m.jsonl", 0),
        file(f"m.jsonl.{RESULT}", 2),
        file("m.jsonl.result-00000000000000ff", 31),  # nobody pages that any more
        file(f"gone.jsonl.{RESULT}", 31),
        file(f"new.jsonl.{RESULT}", 0),  # its session is just being made
        file(f"m.jsonl.{RESULT}.part-77", 2),  # killed while it was written
        file(f"m.jsonl.{RESULT}.part-78", 0.5),
    ]
    made = plan_upkeep(rows, files, rules_for_all(), NOW).actions
    assert {(a.path.rpartition("/")[2], a.reason) for a in made} == {
        ("m.jsonl.result-00000000000000ff", "left over"),
        (f"gone.jsonl.{RESULT}", "orphan"),
        (f"m.jsonl.{RESULT}.part-77", "left over"),
    }


def test_whole_results_go_before_sessions_when_the_disk_is_full() -> None:
    rows = [row("direct:1", 3, "d")]
    files = [file("d.jsonl", 3, 100), file(f"d.jsonl.{RESULT}", 3, 900), file("d.jsonl.result-00000000000000ff", 0, 50)]
    made = plan_upkeep(rows, files, rules_for_all(max_disk=500, high_water=400), NOW)
    assert gone(made.actions) == [f"d.jsonl.{RESULT}"] and not made.over


def test_twenty_thousand_sessions_are_planned_in_one_pass() -> None:
    """Each that went was looked for among all the others, and so were the files of those nobody knows."""
    rows = [row(f"direct:{n}", age=100 + n) for n in range(20_000)]
    loose = [file(f"loose-{n}.jsonl", age=100) for n in range(20_000)]
    files = [*(file(f"{r.session_id}.jsonl", age=100) for r in rows), *loose]
    made = plan_upkeep(rows, files, msgspec.structs.replace(NONE, max_disk=1), NOW)
    assert len(made.actions) == 40_000


def test_by_default_no_conversation_of_a_person_goes() -> None:
    """Issue 28, W9: only what the program began by itself, and what somebody deleted."""
    stateless = "openai:01234567-89ab-cdef-0123-456789abcdef"
    theirs = [f"telegram:direct:{n}" for n in range(700)] + ["acp:1", "work", "openai:mine"]
    made = ["cron:job:run:1", "hook:gmail:1", "main:subagent:1", stateless]
    rows = [row(rest, 999) for rest in (*theirs, *made)] + [row("now", 0, before=("ended",))]
    files = [file("ended.jsonl", 999), file("a.jsonl.reset.1970-01-02T00-00-00.000Z", 999)]
    files += [file("b.jsonl.deleted.1970-01-02T00-00-00.000Z", 999)]
    assert gone(plan_upkeep(rows, files, UpkeepSettings(), NOW).actions) == sorted([*made, files[-1].name])
    many = [row(f"hook:x:{n}", 1) for n in range(700)]
    assert len(plan_upkeep([*rows[:700], *many], [], UpkeepSettings(), NOW).actions) == 200
