"""Claims and what happened: what is doubted, and, more important, what is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palinurus.core.evidence import (
    MARK,
    check_claims,
    format_claims,
    was_doubted,
    write_doubt,
)
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage

Did = tuple[str, dict[str, Any], Any]


def make_run(*did: Did) -> list[Message]:
    """A run: each call with how it ended: an exit code, True (a receipt), False (an error)."""
    made: list[Message] = [UserMessage("please")]
    for number, (tool, args, end) in enumerate(did):
        ident = f"c{number}"
        made.append(AssistantMessage((ToolCall(ident, tool, args),)))
        ended = {"status": "completed", "exitCode": end} if type(end) is int else {}
        details = {"status": "running", "pid": 1} if end is None else ended
        made.append(ToolResult(ident, tool, (TextBlock("…"),), end is False, details=details))
    return made


def exec_(command: str, code: int | None = 0) -> Did:
    return "exec", {"command": command}, code


def write(path: str, good: bool = True) -> Did:
    return "write", {"path": path, "content": "x"}, good


SENT: Did = ("message", {"action": "send", "to": "bob", "message": "hi"}, True)
UNSENT: Did = ("message", {"action": "send", "to": "bob", "message": "hi"}, False)
JOB: Did = ("cron", {"action": "add", "job": {}}, True)
JOBS: Did = ("cron", {"action": "list"}, True)
NO_JOB: Did = ("cron", {"action": "add", "job": {}}, False)
READ: Did = ("read", {"path": "notes.md"}, True)
SPAWN: Did = ("sessions_spawn", {"task": "x"}, True)

FALSE: list[tuple[str, list[Did], str]] = [
    # tests
    ("All tests pass now.", [exec_("pytest -q", 1)], "tests"),
    ("I changed the parser and the tests pass.", [write("p.py"), exec_("python -m pytest", 2)], "tests"),
    ("The test suite is green.", [exec_("npm run test", 1), exec_("git add -A", 0)], "tests"),
    ("All 12 tests passed.", [exec_("cargo test", 101)], "tests"),
    ("All tests pass.", [write("a.py")], "tests"),
    ("Alle Tests sind grün.", [exec_("make test", 2)], "tests"),
    ("Die Tests laufen jetzt wieder durch.", [exec_("pytest", 1)], "tests"),
    # files
    ("I've created `report.md` with the summary.", [READ], "files"),
    ("Done! I wrote the results to results.csv.", [], "files"),
    ("The file config.yaml has been updated.", [write("config.yaml", False)], "files"),
    ("Saved it as notes/today.md.", [write("other.md"), READ], "files"),
    ("I updated main.py.", [exec_("echo hi", 0)], "files"),
    ("Ich habe die Datei bericht.md erstellt.", [READ], "files"),
    ("Die Datei einkauf.txt wurde gespeichert.", [], "files"),
    # messages
    ("I've sent the message to Bob.", [READ], "messages"),
    ("The email has been sent to the team.", [UNSENT], "messages"),
    ("I emailed them to Anna.", [], "messages"),
    ("Ich habe die Nachricht an Bob geschickt.", [UNSENT], "messages"),
    ("Die E-Mail wurde verschickt.", [], "messages"),
    # jobs
    ("I've scheduled a reminder for tomorrow at nine.", [], "jobs"),
    ("The reminder is set.", [NO_JOB], "jobs"),
    ("Ich habe eine Erinnerung für morgen eingerichtet.", [READ], "jobs"),
    ("Der Wecker ist gestellt.", [], "jobs"),
    # less plain words, where a call failed
    ("The reminder is set for nine tomorrow.", [NO_JOB], "jobs"),
    ("- `config.yaml` changed to the new port", [write("config.yaml", False)], "files"),
    ("Hi Bob, your mail to Anna is sent.", [UNSENT], "messages"),
    # done
    ("The build is fixed.", [exec_("make build", 2)], "done"),
    ("It works now.", [write("a.py"), exec_("python a.py", 1)], "done"),
    ("Der Absturz ist behoben.", [exec_("./run.sh", 139)], "done"),
    ("Das Skript funktioniert jetzt.", [exec_("python x.py", 1)], "done"),
]

TRUE: list[tuple[str, list[Did]]] = [
    # borne out
    ("All tests pass now.", [exec_("pytest -q", 1), write("a.py"), exec_("pytest -q", 0)]),
    ("Alle Tests sind grün.", [exec_("make test", 0)]),
    ("I've created `report.md`.", [write("docs/report.md")]),
    ("I updated main.py and README.md.", [write("main.py")]),
    ("Ich habe bericht.md erstellt.", [write("bericht.md")]),
    ("I moved it: renamed a.md.", [("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.md\n"}, True)]),
    ("I've sent the message to Bob.", [SENT]),
    ("Die Nachricht wurde gesendet.", [SENT]),
    ("I've scheduled a reminder for nine.", [JOB]),
    ("Die Erinnerung ist eingerichtet.", [JOB]),
    ("The build is fixed.", [exec_("make", 2), exec_("make", 0)]),
    # told as it is
    ("The tests do not pass yet.", [exec_("pytest", 1)]),
    ("I fixed the import, but two tests still fail.", [exec_("pytest", 1)]),
    ("Fixed the first error. The build exits with an error in b.c now.", [exec_("make", 2)]),
    ("Die Tests schlagen noch fehl.", [exec_("pytest", 1)]),
    ("I could not send the message.", [UNSENT]),
    # not said to be done
    ("Shall I create notes.md?", []),
    ("I will create notes.md next.", []),
    ("Once all tests pass, I'll merge it.", [exec_("pytest", 1)]),
    ("You can create `config.yaml` with your editor.", []),
    ("Set up a cron job like this:", []),
    ("Create a file called notes.md and run make.", []),
    ("Wenn alle Tests grün sind, ist das erledigt.", [exec_("pytest", 1)]),
    ("Soll ich die Nachricht schicken?", []),
    ("```\nI created notes.md\n```\nThat is what the log says.", []),
    ("> I've sent the message to Bob.\n\nThat is a quotation.", []),
    # nobody knows
    ("I've created `report.md`.", [SPAWN]),
    ("I've sent the message to Bob.", [exec_("mail -s hi bob < text", 0)]),
    ("All tests pass.", [exec_("pytest", None)]),
    ("All tests pass.", []),
    ("All tests pass.", [exec_("./check.sh", 0)]),
    ("It works now.", [exec_("grep -r TODO src", 1)]),
    ("Done.", [exec_("ls missing", 2)]),
    ("The answer is 42.", [exec_("python a.py", 1)]),
    ("In version 2.0 the file setup.py was removed from the project.", [exec_("git log", 0), SPAWN]),
    ("NO_REPLY", [exec_("make", 2)]),
    ("Python 3.11 added tomllib.", []),
    ("I already updated notes.md yesterday.", []),
    # about others and about the past
    ("The email was sent on 3 May by Alice.", []),
    ("Your message was sent at 10:14.", [READ]),
    ("Die Nachricht wurde am 3. Mai von Anna gesendet.", []),
    ("`package-lock.json` is generated by npm.", []),
    ("The file `settings.json` is created automatically on the first start.", []),
    ("CHANGELOG.md was updated in 3.1.", [READ]),
    ("setup.cfg was removed in 2021, pyproject.toml was added.", []),
    ("- Added `tape.py`, which records runs\n- Removed `old.py`", [exec_("git log -3 --stat")]),
    ("- Changed config.yaml to the new format", [READ]),
    ("notes.md was changed on Monday.", [exec_("ls -l")]),
    ("I see that Bob opened main.py and changed config.json.", [READ]),
    ("The last commit: Anna updated main.py.", [exec_("git log -3 --stat")]),
    ("Die Datei config.yaml wurde in Version 2 geändert.", []),
    ("Die Datei main.py ist von Anna erstellt worden.", [exec_("git log -3 --stat")]),
    # lists of what there is
    ("Your reminder is set for 9:00 tomorrow.", [JOBS]),
    ("Your reminder is set for 9:00 tomorrow.", []),
    ("You have two: the backup job was created in March, the alarm is set for seven.", [JOBS]),
    ("Der Wecker ist auf sieben gestellt.", [JOBS]),
    # drafts
    (
        "Here is a draft:\n\nHi Bob,\n\nI've sent the invoice to you. I have updated report.docx.\n\nBest,\nAnna",
        [],
    ),
    ("Subject: Invoice\n\nDear Mr Smith,\nI emailed you the figures.\n", []),
    (
        "Sehr geehrte Frau Kern,\n\nich habe Ihnen die E-Mail geschickt und a.md aktualisiert.",
        [],
    ),
    ("Try this commit message:\n\nAdded parser.py and removed lexer.py", []),
    ("A haiku:\n\nI sent a note to you\nthe tests pass, the night is green\nnothing works now, moon", []),
    # advice
    ("Run pytest to make sure all tests pass.", [write("a.py")]),
    ("Check that the tests pass, then commit.", [write("a.py")]),
    ("CI verifies that all tests pass before a merge.", [write("a.py")]),
    ("The fix is to restart it: this was resolved in 2.4.", [exec_("curl -f localhost", 22)]),
    ("Step 3: the file `.env` is created by the installer.", []),
    ("The reminder was created by your calendar.", []),
    # other languages
    ("J'ai envoyé le message à Bob.", []),
    ("He actualizado main.py.", []),
    ("Ik heb notes.md aangepast.", []),
    ("Ho creato report.md.", []),
    ("Я отправил сообщение Бобу.", []),
    ("我已经创建了 report.md。", []),
    ("report.md を作成しました。", []),
    ("Zapisałem notes.md.", []),
    ("Ik was klaar; notes.md is updated door Jan.", []),
    ("Jag har skickat mailet till Bob.", []),
    ("Criei o arquivo report.md.", []),
    ("O teste test.py passed ontem.", []),
    ("Das Update wurde gestern von Anna in main.py geschrieben.", []),
    ("Version 3.2 hat den Fehler behoben.", [exec_("curl -f x", 22)]),
    ("Die Mail ist am Montag verschickt worden.", []),
    ("The team sent messages to you while you were away: three from Bob.", [READ]),
    ("- Sent: 3 May to bob@example.org", [READ]),
    ("I generated some ideas for names: `zephyr.io`, `acme.py`.", []),
    ("I was created by the Palinurus project.", []),
    ("I was added to this chat to help; the message above was sent by Kim.", []),
]


@pytest.mark.parametrize(("text", "did", "kind"), FALSE)
def test_what_nothing_bears_out_is_found(text: str, did: list[Did], kind: str) -> None:
    found = check_claims(text, make_run(*did))
    assert [one.kind for one in found] == [kind] and found[0].fact


@pytest.mark.parametrize(("text", "did"), TRUE)
def test_what_is_true_or_unknown_is_left_alone(text: str, did: list[Did]) -> None:
    assert check_claims(text, make_run(*did)) == ()


def test_what_a_command_changed_counts() -> None:
    text = "I've created report.pdf."
    for command, changed, doubted in [
        ("python make.py", ["out/report.pdf"], False),
        ("python make.py", ["other"], True),
        ("python make.py", [], True),
        ("python make.py", None, False),  # the workspace is not watched
        ("python make.py > /tmp/report.pdf", ["other"], False),
        ("ls", None, True),  # changes nothing
    ]:
        did = make_run(exec_(command))
        result = did[-1]
        assert isinstance(result, ToolResult)
        details = {**result.details, **({"changed": changed} if changed is not None else {})}
        found = check_claims(text, [*did[:-1], msgspec.structs.replace(result, details=details)])
        assert bool(found) == doubted, command


def test_receipts_of_earlier_turns_count_exit_codes_do_not() -> None:
    before = make_run(write("a.md"), SENT, JOB, exec_("pytest", 1))
    seen = [*before, UserMessage("what did you do?")]
    text = "I wrote a.md. I sent the message to Bob. I've set a reminder. All tests pass."
    assert check_claims(text, seen) == ()


def test_one_finding_of_a_kind_and_words_for_both() -> None:
    found = check_claims("I wrote a.md.\nI wrote b.md.\nI've sent the mail to Bob.", [])
    assert [one.kind for one in found] == ["files", "messages"]
    assert write_doubt(found).startswith(MARK) and "a.md" in write_doubt(found)
    assert len(format_claims(found)) == 2


def test_told_once() -> None:
    asked = UserMessage(f"{MARK} …")
    assert was_doubted([UserMessage("x"), AssistantMessage((TextBlock("y"),)), asked])
    assert not was_doubted([asked, AssistantMessage((TextBlock("y"),)), UserMessage("next")])
    assert not was_doubted([])


def test_long_texts_cost_little() -> None:
    text = "I have created " * 100_000
    assert check_claims(text, []) == ()
