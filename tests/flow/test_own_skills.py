"""Our own skills: one line of the prompt leads to all of them; each is found, read, and does its job in the sandbox."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running
from palinurus.core.skills.skill import Skill, parse_skill
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.workspace.discovery import locate_bundled_skills
from support import inbound

ROOT = Path(locate_bundled_skills())
OWNER = Sender("human", owner=True)
MBOX = (
    "From a Mon Jan  5 10:00:00 2026\nFrom: Ada <ada@example.org>\nSubject: Dinner?\n"
    "Date: Mon, 5 Jan 2026 10:00:00 +0000\n\nCan you come on Friday?\n\n"
    "From b Mon Jan  6 10:00:00 2026\nFrom: News <n@example.org>\nSubject: Sale\nList-Unsubscribe: <x>\n"
    "Date: Tue, 6 Jan 2026 10:00:00 +0000\n\nBuy.\n"
)
LOG = "2026-01-01 10:00:00 INFO up\n2026-01-01 10:00:05 ERROR disk 17 full\n2026-01-01 10:00:09 ERROR disk 18 full\n"
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 3/Kids[]>>endobj\n"
    b"3 0 obj<</Title(Tides)>>endobj\n4 0 obj<</Length 9>>stream\n(hi) Tj\nendstream endobj\n%%EOF"
)
# Git wants to know who commits; the sandbox has no such settings.
GIT = "git -c user.name=t -c user.email=t@e -c init.defaultBranch=main"
REPO = f"{GIT} init -q r && cd r && echo one > a && git add a && {GIT} commit -qm one"

# skill -> (files of the workspace, a command that follows its steps, words of what comes out)
JOBS: dict[str, tuple[dict[str, str | bytes], str, tuple[str, ...]]] = {
    "git-review": (
        {},
        f"{REPO} && {GIT} checkout -qb b && echo two > a && {GIT} commit -qam two && git log --oneline main..HEAD"
        " && git diff --stat main...HEAD",
        ("two", "1 file changed"),
    ),
    "pdf": ({"t.pdf": PDF}, "{here}/scripts/pdfinfo t.pdf", ("pages      3", "title      Tides", "text       yes")),
    "spreadsheet": (
        {"m.csv": "who;sum\nada;1.234,50\nbob;2\nada;x\n"},
        "{here}/scripts/sheet sum m.csv sum --by who",
        ("ada: sum 1234.5, count 1", "bob: sum 2", "left out: 1 rows"),
    ),
    "calendar-file": (
        {},
        "{here}/scripts/ics make t.ics --title 'Tea; cake' --start 2026-03-01T14:00 --zone Europe/Berlin"
        " && {here}/scripts/ics read t.ics",
        ("Sunday, 01 March 2026, 14:00 to 15:00", "2026-03-01 13:00 UTC"),
    ),
    "email-triage": (
        {"m.mbox": MBOX},
        "{here}/scripts/mails list m.mbox && {here}/scripts/mails show m.mbox 1",
        ("Dinner?", "list", "Can you come on Friday?"),
    ),
    "web-research": ({}, "echo 'What is asked: X. Counts: a number.'", ("Counts",)),
    "repo-onboarding": ({}, f"{REPO} && git log --oneline | head -20 && git shortlog -sn HEAD | head", ("one", "1\tt")),
    "log-reading": (
        {"a.log": LOG},
        "{here}/scripts/loglook a.log && {here}/scripts/loglook a.log --around 'disk 17'",
        ("error 2", "2 x  first line 2, last 3", "1: 2026-01-01 10:00:00 INFO up"),
    ),
    "meeting-notes": ({"m.txt": "Ada: I send it on Friday.\n"}, "cat m.txt", ("I send it on Friday",)),
    "backup-check": (
        {"b/one.zip": b"PK no zip", "b/two.txt": "x"},
        "{here}/scripts/backups b",
        ("wrong    one.zip: not a zip archive", "files    2"),
    ),
    "home-inventory": (
        {},
        "{here}/scripts/inventory add Drill --room cellar --price 99.90 && {here}/scripts/inventory list --room cellar",
        ("Drill  cellar  99.90", "1 things; cellar 99.90"),
    ),
    "translation": (
        {"a.md": "# Hi {name}\n\nPay 1,200 at `x`.\n", "b.md": "# Hallo\n\nZahle 1.200 bei `x`.\n"},
        "{here}/scripts/compare a.md b.md",
        ("missing placeholder: {name}", "1 differences"),
    ),
    "invoices": (
        {},
        "{here}/scripts/invoice make --to 'Ada, Street 1' --item 'Work|2.5|80' --tax 19 && {here}/scripts/invoice open",
        ("net 200.00, tax 38.00, total 238.00 EUR", "1 invoices, 238.00 in all"),
    ),
    "reading-list": (
        {},
        "{here}/scripts/reading add https://e.example/x --minutes 12 --tag sea && {here}/scripts/reading list"
        " && {here}/scripts/reading done 1 && {here}/scripts/reading list",
        ("added as 1", "https://e.example/x (12 min) #sea", "done:", "nothing"),
    ),
    "self-diagnosis": ({}, "pal status || echo asked", ("gateway",)),
}


def load(name: str) -> Skill:
    made = parse_skill((ROOT / name / "SKILL.md").read_text(), str(ROOT / name / "SKILL.md"), name)
    assert isinstance(made, Skill), made
    return made


def furnish(home: Path, files: dict[str, str | bytes]) -> None:
    for name, data in files.items():
        path = home / "workspace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


@pytest.mark.parametrize("name", JOBS)
async def test_it_is_offered_read_and_does_its_job(tmp_path: Path, name: str) -> None:
    files, command, words = JOBS[name]
    furnish(tmp_path / "h", files)
    line = re.sub(r"\{here\}/scripts/", f"python3 {ROOT / name}/scripts/", command)
    steps: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": str(ROOT / "library" / "SKILL.md")}),
        ("read", {"path": str(ROOT / name / "SKILL.md")}),
        ("exec", {"command": line, "yieldMs": 110_000}),
    ]
    model = ScriptedModel([*(call_tools(step) for step in steps), say("done")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        row = await app.wait((await app.submit(inbound(f"help me with {name}", sender=OWNER))).id)
        assert row.outcome == "answered", row.note
    prompt = model.requests[0].prompt
    told = prompt.stable + prompt.volatile
    assert "<name>library</name>" in told and f"<name>{name}</name>" not in told  # one entry stands for all
    library, own, done = [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]
    assert f"`{name}`" in library and load(name).description in own
    for word in words:
        assert word in done, done
    assert "untrusted content" not in done  # the program's own skills are nobody else's words


async def test_the_command_of_one_runs_it(tmp_path: Path) -> None:
    model = ScriptedModel([say("ready")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        row = await app.wait((await app.submit(inbound("/spreadsheet look at m.csv", sender=OWNER))).id)
    assert row.outcome == "answered"
    said = json.dumps([str(message) for message in model.requests[0].messages])
    assert "spreadsheet" in said and "look at m.csv" in said


def test_the_library_names_every_one_and_nothing_else() -> None:
    text = (ROOT / "library" / "SKILL.md").read_text()
    named = set(re.findall(r"\| `([a-z-]+)` \|", text))
    there = {entry.name for entry in os.scandir(ROOT) if entry.is_dir()} - {"library", "summarize", "palinurus-help"}
    assert named == there == set(JOBS) and len(named) == 15
    for name in named:
        skill = load(name)
        assert skill.name == name and not skill.model_invocable and skill.user_invocable and not skill.warnings
        assert len((ROOT / name / "SKILL.md").read_text().splitlines()) < 35
    assert len(load("library").description) < 300  # all that the prompt pays


def test_a_workbook_is_read_without_any_library(tmp_path: Path) -> None:
    ns = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    rows = '<row><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>n</t></is></c></row>'
    rows += '<row><c r="A2"><v>1</v></c><c r="C2"><v>4.5</v></c></row>'
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", f'<workbook {ns}><sheets><sheet name="One"/></sheets></workbook>')
        book.writestr("xl/sharedStrings.xml", f"<sst {ns}><si><t>who</t></si></sst>")
        book.writestr("xl/worksheets/sheet1.xml", f"<worksheet {ns}><sheetData>{rows}</sheetData></worksheet>")
    space: dict[str, Any] = {"__name__": "sheet"}
    exec(compile((ROOT / "spreadsheet/scripts/sheet").read_text(), "sheet", "exec"), space)
    assert space["read_table"](str(tmp_path / "b.xlsx")) == (["One"], [["who", "", "n"], ["1", "", "4.5"]])
    assert [space["read_number"](t) for t in ("1.234,50", "1,234.50", "12 %", "€ 3", "x", "1,5")] == [
        1234.5,
        1234.5,
        12,
        3,
        None,
        1.5,
    ]
