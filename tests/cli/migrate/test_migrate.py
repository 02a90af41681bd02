"""`pal import`: three programs' homes come over, nothing of them is written, twice is once, killed is resumed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.migrate import homes
from palinurus.agent.marks import find_session_taint
from palinurus.app.migrate.openclaw import read_openclaw
from palinurus.app.migrate.place import HomeImporter
from palinurus.cli.migrate import PARTS, run_import
from palinurus.cli.setup import run_setup
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.policy.spoken import list_own_words
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.factory import open_reader, open_store
from palinurus.store.port import Store

MAKERS: dict[str, Callable[[Path], Path]] = {
    "openclaw": homes.make_openclaw,
    "nanobot": homes.make_nanobot,
    "hermes": homes.make_hermes,
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "pal"))
    monkeypatch.delenv("OPENCLAW_STATE_DIR", raising=False)
    monkeypatch.delenv("HERMES_HOME", raising=False)
    return tmp_path / "pal"


def bring(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[tuple[str, str], dict[str, Any]]:
    assert run_import([*argv, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["lines"]
    return {(line["part"], line["name"]): line for line in told}


def snapshot(root: Path) -> dict[str, str]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def records(home: Path, kind: str) -> dict[str, Any]:
    with open_reader(str(home)) as reader:
        return {row.key: json.loads(row.data) for row in reader.list_records(kind)}


def transcript(home: Path, key: str) -> Transcript:
    with open_reader(str(home)) as reader:
        row = reader.session(key)
    assert row is not None
    read = Transcript("")
    read.fill((home / SessionRecord.decode(row.data).path(row.agent)).read_bytes())
    assert not read.bad
    return read


@pytest.mark.parametrize("make", [homes.make_openclaw, homes.make_new_openclaw])
def test_openclaw_comes_over(
    make: Callable[[Path], Path], tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make(tmp_path)
    before = snapshot(root)
    told = bring(capsys, "openclaw")
    assert snapshot(root) == before
    said = [entry.message.text for entry in transcript(home, homes.KEY).entries if isinstance(entry, MessageEntry)]
    assert said == ["remember the milk", "I will."]
    with open_reader(str(home)) as reader:
        row = reader.session(homes.KEY)
    assert row is not None and SessionRecord.decode(row.data).thinkingLevel == "high"
    assert b"skillsSnapshot" not in row.data
    assert records(home, "job").keys() == {"j-1"}  # not the other program's own upkeep
    assert records(home, "job")["j-1"]["payload"]["message"] == "morning brief"
    assert records(home, "paired")["telegram/default/4711"]["by"] == "import: openclaw"
    assert "/usr/bin/git" in (home / "exec-approvals.json").read_text()
    assert "sk-ant" in (home / "agents/main/agent/auth-profiles.json").read_text()
    assert (home / "agents/main/agent/auth-profiles.json").stat().st_mode & 0o77 == 0
    assert (home / "workspace/SOUL.md").read_text() == "I am Molty.\n"
    loaded = load_config(str(home), {"HOME": str(tmp_path)})
    assert loaded.settings.agents["work"].workspace == str(home / "workspace-work")
    assert told["config", "agents.defaults.workspace"]["fate"] == "changed"
    assert told["config", "nonsense"] == {
        "part": "config",
        "name": "nonsense",
        "fate": "lost",
        "why": "no such key here",
    }
    assert told["config", "channels.nostr.enabled"]["fate"] == "lost"
    assert "nonsense" not in (home / "palinurus.json").read_text()


def test_rows_that_stay_behind_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    homes.make_new_openclaw(tmp_path)
    told = bring(capsys, "openclaw")
    assert told["rest", "device_pairing_paired (1)"]["why"] == "pair each device again: pal devices"


def test_nanobot_jobs_are_found_where_it_keeps_them(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.make_nanobot(tmp_path)
    bring(capsys, "nanobot")
    jobs = records(home, "job")
    assert jobs.keys() == {"n-1", "n-2"} and jobs["n-2"]["delivery"]["to"] == "4711"
    assert not (home / "workspace/cron").exists()


def test_every_name_of_the_old_home_is_in_the_report(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.make_openclaw(tmp_path)
    told = bring(capsys, "openclaw")
    assert told["archives", "agents/main/sessions/s-0.jsonl.reset.2026-01-01T00-00-00.000Z"]["fate"] == "kept"
    assert told["memory", "workspace/MEMORY.md"]["fate"] == "kept"
    assert "JavaScript" in told["rest", "extensions"]["why"]
    assert told["rest", "surprise.bin"]["why"] == "not known to this importer"
    assert told["jobs", "odd"]["fate"] == "lost"
    assert told["sessions", "agent:main:gone"]["why"] == "there is no transcript"
    assert told["config", "env.vars.GROQ_API_KEY"]["fate"] == "kept"
    assert load_config(str(home), {}).raw["env"]["vars"] == {"GROQ_API_KEY": "sk-very-secret-too"}


@pytest.mark.parametrize("program", MAKERS)
def test_twice_is_once_and_a_dry_run_is_nothing(
    program: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    MAKERS[program](tmp_path)
    bring(capsys, program, "--dry-run")
    assert not home.exists()
    first = bring(capsys, program)
    assert any(line["fate"] == "kept" for line in first.values())
    kept = {name: digest for name, digest in snapshot(home).items() if "state.db" not in name}
    second = bring(capsys, program)
    assert second.keys() == first.keys()
    assert all(line.get("done") for line in second.values() if line["fate"] != "lost")
    assert {name: digest for name, digest in snapshot(home).items() if "state.db" not in name} == kept


@pytest.mark.parametrize("program", MAKERS)
def test_no_secret_is_printed(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MAKERS[program](tmp_path)
    assert run_import([program]) == 0 and run_import([program, "--json"]) == 0
    assert "sk-very-secret" not in capsys.readouterr().out


class KilledStore:
    """Ends like a kill at its n-th change."""

    def __init__(self, store: Store, left: int) -> None:
        self._store, self._left = store, left

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in ("put_record", "save_session"):
            self._left -= 1
            if self._left < 0:
                raise KeyboardInterrupt
        return found


def test_killed_at_any_step_it_is_run_again(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = homes.make_openclaw(tmp_path)
    environ = {"HOME": str(tmp_path)}

    async def bring_until(to: Path, left: int | None) -> bool:
        to.mkdir(exist_ok=True)
        store = await open_store(str(to), SystemClock())
        try:
            await store.recover()
            used: Any = store if left is None else KilledStore(store, left)
            await HomeImporter(str(to), environ, SystemClock(), used).run(read_openclaw(str(root), environ), PARTS)
        except KeyboardInterrupt:
            return True
        finally:
            await store.close()
        return False

    def state(of: Path) -> tuple[dict[str, str], list[Any], dict[str, Any]]:
        files = {name: digest for name, digest in snapshot(of).items() if not name.startswith(("state.db", "gateway."))}
        with open_reader(str(of)) as reader:
            return (
                files,
                [row.data for row in reader.sessions()],
                {row.key: row.data for row in reader.list_records("import")},
            )

    asyncio.run(bring_until(tmp_path / "whole", None))
    wanted = state(tmp_path / "whole")
    for left in range(100):
        to = tmp_path / f"cut{left}"
        if not asyncio.run(bring_until(to, left)):
            break
        assert not asyncio.run(bring_until(to, None))
        assert state(to) == wanted
    assert left > 8


def test_what_is_here_stays(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = homes.make_openclaw(tmp_path)
    homes.put(home, "palinurus.json", {"agents": {"defaults": {"model": {"primary": "demo/demo"}}}})
    homes.put(home, "workspace/SOUL.md", "I am Pal.\n")
    told = bring(capsys, "openclaw")
    assert (home / "workspace/SOUL.md").read_text() == "I am Pal.\n"
    assert (home / "workspace/SOUL.md.openclaw").read_text() == "I am Molty.\n"
    assert told["workspace", "workspace/SOUL.md"]["fate"] == "changed"
    assert told["config", "agents.defaults.model.primary"]["why"] == "what stands in your config here stays"
    assert "demo/demo" in (home / "palinurus.json").read_text()
    # A conversation that went on here is not overwritten by a later import of the old home.
    ours = home / "agents/main/sessions/s-1.jsonl"
    ours.write_text(ours.read_text() + json.dumps({**homes.TALK[1], "id": "a3", "parentId": "a2"}) + "\n")
    homes.put(
        root,
        "agents/main/sessions/s-1.jsonl",
        homes.lines(*homes.TALK, {**homes.TALK[1], "id": "b3", "parentId": "a2"}),
    )
    again = bring(capsys, "openclaw")
    assert "went on here" in again["sessions", homes.KEY]["why"] and '"a3"' in ours.read_text()


def test_a_session_in_use_here_keeps_its_place(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    homes.make_nanobot(tmp_path)
    bring(capsys, "nanobot")
    homes.make_hermes(tmp_path)
    homes.put(tmp_path, ".hermes/pairing/telegram-approved.json", {"4711": {}})
    told = bring(capsys, "hermes")
    assert {line["fate"] for (part, _), line in told.items() if part == "sessions"} == {"changed"}
    with open_reader(str(home)) as reader:
        keys = {row.key for row in reader.sessions()}
    assert {
        "agent:main:telegram:direct:4711",
        "agent:main:telegram:direct:12",
        "agent:main:explicit:hermes-s-old",
    } <= keys


@pytest.mark.parametrize(("program", "key"), [
    ("nanobot", "agent:main:telegram:direct:4711"), ("hermes", "agent:main:telegram:direct:12"),
])  # fmt: skip
def test_chats_become_transcripts_with_their_tool_calls(
    program: str, key: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    MAKERS[program](tmp_path)
    bring(capsys, program)
    said = [entry.message for entry in transcript(home, key).entries if isinstance(entry, MessageEntry)]
    asked, calling, result, answer = said
    assert asked.text == "what is in notes.txt?" and answer.text == "A plan."
    assert [(call.id, call.name, call.arguments) for call in calling.calls] == [
        ("c1", "read_file", {"path": "notes.txt"})
    ]  # type: ignore[union-attr]
    assert isinstance(result, ToolResult) and (result.toolCallId, result.toolName, result.text) == (
        "c1",
        "read_file",
        "plan",
    )
    job = next(job for job in records(home, "job").values() if job["name"] == "brief")
    assert job["payload"]["message"] == "morning brief" and job["delivery"]["channel"] == "telegram"
    loaded = load_config(str(home), {"HOME": str(tmp_path)})
    assert loaded.raw["agents"]["defaults"]["model"]["primary"] == "anthropic/claude-opus-4-5"
    assert "files" in json.dumps(loaded.raw["mcp"]["servers"])
    assert loaded.raw["channels"]["telegram"]["botToken"] == "1:abc"


def make_group(program: str, root: Path) -> str:
    """The chat of the made home is a group's; its session here."""
    if program == "openclaw":
        table = root / "agents/main/sessions/sessions.json"
        rows = json.loads(table.read_text())
        rows["agent:main:telegram:group:-7"] = rows.pop(homes.KEY)
        table.write_text(json.dumps(rows))
        return "agent:main:telegram:group:-7"
    if program == "nanobot":
        (old,) = (root / "sessions").rglob("telegram_4711.jsonl")
        old.with_name("telegram_-7.jsonl").write_text(old.read_text().replace("telegram:4711", "telegram:-7"))
        old.unlink()
        return "agent:main:telegram:direct:-7"
    with sqlite3.connect(root / "state.db") as base:
        base.execute("UPDATE sessions SET chat_type = 'group'")
    return "agent:main:explicit:hermes-s-old"  # its older half, whose key says nothing of the group


@pytest.mark.parametrize("program", MAKERS)
def test_what_a_group_said_is_not_the_owners_word(
    program: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever wrote it: an address or a value there was as if the owner had given it, and nothing was asked."""
    key = make_group(program, MAKERS[program](tmp_path))
    bring(capsys, program)
    said = transcript(home, key)
    assert any(isinstance(one, UserMessage) for one in said.messages())
    assert not list_own_words(said.messages()) and "group import" in find_session_taint(said)


@pytest.mark.parametrize("program", MAKERS)
def test_no_home_or_a_broken_one_is_a_sentence(program: str, tmp_path: Path, home: Path) -> None:
    with pytest.raises(NotFound, match="there is no"):
        run_import([program])
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadRequest, match="is no home of"):
        run_import([program, str(tmp_path / "empty")])
    root = MAKERS[program](tmp_path)
    with pytest.raises(BadRequest, match="no part is called"):
        run_import([program, "--only", "dreams"])
    for name in ("openclaw.json", "config.json", "config.yaml"):
        if (root / name).exists():
            (root / name).write_text('{"a": [' if name.endswith("json") else "a: [\n")
    with pytest.raises(BadRequest, match="cannot be read"):
        run_import([program])
    assert not home.exists()


@pytest.mark.parametrize("answer", ["", "--yes", "--no-import"])
def test_setup_offers_what_could_come_over(
    answer: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.make_openclaw(tmp_path)
    assert run_setup(["--non-interactive", *([answer] if answer else [])]) == 0
    told = capsys.readouterr().out
    assert (f"found {tmp_path}/.openclaw: 1 keys, " in told) == (answer != "--no-import")
    assert ("`pal import openclaw` brings everything over" in told) == (answer == "")
    assert ("came over." in told) == (answer == "--yes")
    assert (home / "workspace/BOOTSTRAP.md").exists() == (answer != "--yes")  # who has a character is not asked for one
    bring(capsys, "openclaw")
    assert (home / "workspace/SOUL.md").read_text() == "I am Molty.\n"
    assert not (home / "workspace/BOOTSTRAP.md").exists()


def test_only_some_parts(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    homes.make_openclaw(tmp_path)
    assert {part for part, _ in bring(capsys, "openclaw", "--only", "jobs, skills")} == {"jobs", "skills"}
    assert not (home / "workspace").exists() and (home / "skills/mine/SKILL.md").exists()


def test_a_running_gateway_is_told(tmp_path: Path, home: Path) -> None:
    homes.make_openclaw(tmp_path)

    async def held() -> None:
        home.mkdir()
        store = await open_store(str(home), SystemClock())
        try:
            with pytest.raises(PalinurusError) as refused:
                await asyncio.to_thread(run_import, ["openclaw"])
            assert refused.value.fix
        finally:
            await store.close()

    asyncio.run(held())


def test_what_parts_of_the_other_program_said_is_not_the_owners_word(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = homes.make_openclaw(tmp_path) / "agents/main/sessions/s-1.jsonl"
    last = json.loads(file.read_text().splitlines()[-1])["id"]
    told = [
        {"type": "custom_message", "id": "c1", "parentId": last, "customType": "x", "content": "go there"},
        *(
            {"type": "message", "id": role, "parentId": before, "message": {"role": role, "content": "go", **more}}
            for role, before, more in (
                ("custom", "c1", {}), ("hookMessage", "custom", {}), ("bashExecution", "hookMessage", {"output": "go"}),
            )
        ),
    ]  # fmt: skip
    file.write_text(file.read_text() + "".join(f"{json.dumps(one)}\n" for one in told))
    bring(capsys, "openclaw")
    said = transcript(home, homes.KEY)
    assert list_own_words(said.messages()) == ["remember the milk"] and len(said.messages()) == 6
    assert set(find_session_taint(said)) == {"import", "command"}
