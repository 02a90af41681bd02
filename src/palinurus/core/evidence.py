"""What an answer claims to have done, held against what happened: exit codes, receipts of tools, changed files. Pure,
and no model is asked.

Few false alarms before many finds: a sentence counts only if it plainly says that something was done (no question, no
condition, no negation, no code, no quotation), in words of `_RULES`, and only where what happened is known. Who ran
something whose effects nobody sees (a browser, a plugin's tool, a sub-agent) is believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from palinurus.core.stream.silent import is_silent
from palinurus.core.types.card import EvidenceFinding, UnprovenClaim
from palinurus.core.types.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from palinurus.patterns import compile_late

MARK = "[Evidence check]"
MOST = 5  # findings of one answer
QUOTED = 160  # characters of a sentence
READ, LONGEST = 20_000, 600  # characters of an answer, and of a sentence that is understood

FILE_TOOLS = frozenset(("write", "edit", "apply_patch"))
COMMAND_TOOLS = frozenset(("exec", "process"))
# Tools whose effects are known: what they did not do, they did not do.
KNOWN = FILE_TOOLS | COMMAND_TOOLS | frozenset(
    "read ls find grep message cron update_plan web_fetch web_search memory_search memory_get image pdf session_status "
    "sessions_list sessions_history agents_list".split()
)  # fmt: skip


class RanCommand(NamedTuple):
    """A command that ended."""

    line: str
    code: int
    test: bool


class RunEvidence(msgspec.Struct, frozen=True):
    """What a run did, and of files, messages and jobs also what the conversation did before it."""

    commands: tuple[RanCommand, ...] = ()
    open_end: bool = False  # a command was left running, or looked after, since the last one that ended
    unchecked: bool = False  # a file was written, and no command ran after it
    wrote: frozenset[str] = frozenset()  # names of files with a receipt
    failed: frozenset[str] = frozenset()  # names of files whose last writing failed
    sent: bool = False
    scheduled: bool = False
    ran: bool = False  # a command ran: files and messages may be its doing
    beyond: bool = False  # perhaps outside the workspace
    obscure: bool = False  # a tool was used whose effects are not known here


def gather_evidence(messages: Sequence[Message]) -> RunEvidence:
    """Of a conversation. What came after the last message of a person is the run's own."""
    said = (at for at, m in enumerate(messages) if isinstance(m, UserMessage) and not m.text.startswith(MARK))
    since = max(said, default=0)
    calls = {call.id: call for m in messages if isinstance(m, AssistantMessage) for call in m.calls}
    seen = _Evidence()
    for at, message in enumerate(messages):
        call = calls.get(message.toolCallId) if isinstance(message, ToolResult) else None
        if isinstance(message, ToolResult) and call is not None:
            seen.take(call, message, own=at >= since)
    return seen.make()


class _Evidence:
    def __init__(self) -> None:
        self._commands: list[RanCommand] = []
        self._flags = dict.fromkeys(("open_end", "unchecked", "sent", "scheduled", "ran", "beyond", "obscure"), False)
        self._wrote: set[str] = set()
        self._failed: set[str] = set()

    def make(self) -> RunEvidence:
        wrote, failed = frozenset(self._wrote), frozenset(self._failed)
        return RunEvidence(tuple(self._commands), wrote=wrote, failed=failed, **self._flags)

    def take(self, call: ToolCall, result: ToolResult, *, own: bool) -> None:
        flags, good = self._flags, not result.isError
        if call.name in FILE_TOOLS:
            names = _name_written(call)
            (self._wrote if good else self._failed).update(names)
            (self._failed if good else set[str]()).difference_update(names)
            flags["unchecked"] |= own and good
        elif call.name == "exec" and own:
            flags["ran"] = True
            flags["beyond"] |= bool(call.arguments.get("workdir") or _BEYOND.search(str(call.arguments.get("command"))))
            self._run(call, result)
        elif call.name == "process" and own:
            flags["ran"] = flags["open_end"] = flags["beyond"] = True
        elif call.name == "message":
            flags["sent"] |= good and call.arguments.get("action", "send") not in ("read", "search")
        elif call.name == "cron":
            flags["scheduled"] |= good and call.arguments.get("action") in ("add", "update", "run", "wake")
        elif call.name not in KNOWN:
            flags["obscure"] |= own

    def _run(self, call: ToolCall, result: ToolResult) -> None:
        details: Any = result.details if isinstance(result.details, dict) else {}
        if details.get("status") == "running":
            self._flags["open_end"] = True
            return
        code = details.get("exitCode")
        if code is None and not result.isError:
            self._flags["open_end"] = True  # of another form: nobody knows how it ended
            return
        line = " ".join(str(call.arguments.get("command") or "").split())
        self._flags |= {"open_end": False, "unchecked": False}
        self._commands.append(RanCommand(line, code if isinstance(code, int) else 1, bool(_TESTS.search(line))))


def _name_written(call: ToolCall) -> set[str]:
    args = call.arguments
    found = [str(args[name]) for name in ("path", "file_path", "file") if isinstance(args.get(name), str)]
    if isinstance(args.get("input"), str):
        found += _PATCHED.findall(args["input"])
    return {path.strip().rpartition("/")[2] for path in found}


_TESTS = compile_late(
    r"\b(?:pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|phpunit|rspec|ctest|(?:npm|yarn|pnpm|bun|go|cargo|make|mvn"
    r"|gradle|\./gradlew|dotnet|swift|mix|rake|bazel)\b[^|;&]{0,40}\btests?)\b"
)
_PATCHED = compile_late(r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$")
# A command that may write beyond the workspace, where nobody looks.
_BEYOND = compile_late(r"(?:^|[\s=\"'(])(?:~|/|\$|\.\./)|\bcd\b")
# Exit codes of these say what they found, not that something went wrong.
_ASKING = compile_late(
    r"^(?:\S*/)?(?:e?grep|fgrep|rg|ag|diff|cmp|test|\[|which|type|command -v|pgrep|ls|stat|timeout|!)\b|\|\|"
)

_CODE = compile_late(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTE = compile_late(r"(?m)^\s*>.*$")
_SENTENCE = compile_late(r"(?<=[.!?:;])\s+|\n+")
# A sentence with one of these does not say that something was done, or says more than we understand.
_HEDGE = compile_late(
    r"\b(?:not|no|never|none|nothing|without|if|when|once|unless|until|would|could|should|can|cannot|may|might|must|will|"
    r"want|let me|let's|please|try|going to|need to|needs to|to be|failed|fails|failing|failure|error|errors|unable|"
    r"except|but|however|although|earlier|yesterday|already|previously|example|e\.g|"
    r"nicht|kein|keine|keinen|nie|nichts|ohne|wenn|falls|sobald|würde|würden|könnte|könnten|sollte|sollten|kann|können|"
    r"muss|müssen|werde|werden|wird|bitte|möchtest|soll|noch|fehler|fehlgeschlagen|schlägt|schlugen|aber|jedoch|obwohl|"
    r"gestern|bereits|schon|zuvor|beispiel|z\.\s?b)\b|n['’]t\b|\?\s*$",
    re.IGNORECASE,
)
_TROUBLE = compile_late(
    r"\b(?:fail(?:s|ed|ing|ure)?|errors?|exit code|exited|broken|unfortunately|did ?n['’]t|could ?n['’]t|does ?n['’]t|"
    r"not (?:yet|work|pass)|fehler|fehlgeschlagen|schlägt|schlug|leider|nicht|problem)\b",
    re.IGNORECASE,
)
_PATH = compile_late(
    r"`([^`\s]{1,200}\.[A-Za-z0-9]{1,8})`|(?<![\w/@:.-])((?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]{1,5}\d?)(?![\w/])"
)
_ENDINGS = frozenset(
    "md txt py js ts tsx jsx json json5 yaml yml toml ini cfg csv tsv html htm css sh bash sql xml pdf docx xlsx pptx "
    "png jpg jpeg svg gif rs go c h cc cpp hpp java kt rb php lua ipynb tex log conf env ics eml zip tar gz".split()
)

# Parts of the words below: without one of them a sentence claims nothing.
_STEMS = (
    *"created written wrote saved added updated edited modified changed generated deleted removed renamed".split(),
    *"sent emailed messaged texted scheduled reminder alarm timer job pass green succeed".split(),
    *"fixed resolved works working done complete success builds runs".split(),
    *"erstellt angelegt geschrieben gespeichert ergänzt aktualisiert bearbeitet geändert angepasst erzeugt".split(),
    *"gelöscht entfernt umbenannt sendet schickt erinnerung wecker termin zeitplan".split(),
    *"grün bestanden bestehen durch erfolgreich fehlerfrei behoben gefixt repariert erledigt fertig".split(),
    *"funktioniert läuft".split(),
)
_LIST = r"^[\s\-*•✅✓☑\d.)]*"  # a sentence may begin with the verb
_I = r"\bi(?:['’]ve|\s+have|\s+just|\s+also|\s+then)*\s+"
_WAS = r"\b(?:was|were|is|are|been)\s+(?:successfully\s+|now\s+|also\s+)*"
_HABE = r"\b(?:habe|wurde|wurden|ist|sind)\b.{0,120}"
_MAIL = r"\b(?:nachricht|e-?mail|mail)\b.{0,80}"
_JOB = r"\b(?:erinnerung|cronjob|wecker|termin|zeitplan)\b.{0,80}"


def _compile(*ways: str) -> re.Pattern[str]:
    return compile_late("|".join(ways), re.IGNORECASE)


_TESTS_PASS = _compile(
    r"\b(?:tests?|test suite|specs?)\s+(?:now\s+|all\s+|are\s+|is\s+|have\s+)*"
    r"(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b",
    r"\b(?:alle|die|sämtliche)\s+(?:\w+\s+)?tests?\s+(?:sind\s+|laufen\s+|jetzt\s+|nun\s+|wieder\s+|alle\s+)*"
    r"(?:grün|bestanden|bestehen|durchgelaufen|durch|erfolgreich|fehlerfrei)\b",
)
_WROTE = _compile(
    rf"(?:{_LIST}|{_I}|{_WAS}|{_I}[^,]{{1,120}}\band\s+)(?:successfully\s+)?"
    r"(?:created|written|wrote|saved|added|updated|edited|modified|changed|generated|deleted|removed|renamed)\b",
    rf"{_HABE}\b(?:erstellt|angelegt|geschrieben|gespeichert|ergänzt|aktualisiert|bearbeitet|geändert|angepasst|erzeugt|"
    r"gelöscht|entfernt|umbenannt)\b",
)
_SENT = _compile(
    rf"(?:{_LIST}|{_I})(?:sent|emailed|messaged|texted)\b.{{0,80}}"
    r"\b(?:message|e-?mail|mail|text|note|reply|them|him|her|you|to)\b",
    rf"\b(?:message|e-?mail)\b.{{0,60}}{_WAS}sent\b",
    rf"{_HABE}{_MAIL}\b(?:gesendet|geschickt|verschickt|versendet|abgeschickt)\b",
    rf"{_MAIL}{_HABE}\b(?:gesendet|geschickt|verschickt|versendet|abgeschickt)\b",
)
_SCHEDULED = _compile(
    rf"(?:{_I}(?:set(?:\s+up)?|scheduled|created|added)|{_WAS}(?:scheduled|created|added)|{_LIST}(?:scheduled|created|added))"
    r"\b.{0,60}\b(?:reminders?|cron ?jobs?|jobs?|alarms?|timers?)\b",
    rf"\b(?:reminder|cron ?job|alarm|timer)\b.{{0,60}}{_WAS}(?:set|scheduled|created)\b",
    rf"{_HABE}{_JOB}\b(?:eingerichtet|gesetzt|angelegt|erstellt|geplant|gestellt|eingeplant)\b",
    rf"{_JOB}{_HABE}\b(?:eingerichtet|gesetzt|angelegt|erstellt|geplant|gestellt|eingeplant)\b",
)
_FIXED = _compile(
    r"\b(?:fixed|resolved|works now|now works|working now|is (?:now )?(?:done|working|complete)|all done)\b",
    r"\b(?:completed successfully|builds? (?:now )?(?:successfully|cleanly|passes)|runs? successfully)\b",
    r"\b(?:behoben|gefixt|repariert|erledigt|alles fertig|erfolgreich abgeschlossen)\b",
    r"\b(?:funktioniert|läuft) (?:jetzt|nun|wieder)\b",
)

Changed: TypeAlias = Callable[
    [], Collection[str] | None
]  # names of files that are known to have changed; None: unknown


def _check_tests(_said: str, seen: RunEvidence, _changed: Changed) -> str:
    if seen.open_end or seen.obscure:
        return ""
    last = next((one for one in reversed(seen.commands) if one.test), None)
    if last is not None and last.code:
        return f"the last test run ended with exit code {last.code}: {last.line[:80]}"
    if last is None and seen.unchecked and not seen.ran:
        return "files were changed and no command ran after it"
    return ""


def _check_files(said: str, seen: RunEvidence, changed: Changed) -> str:
    if seen.obscure:
        return ""
    named = [one or two for one, two in _PATH.findall(said)]
    names = [path.rpartition("/")[2] for path in dict.fromkeys(named) if path.rpartition(".")[2].lower() in _ENDINGS]
    missing = [name for name in names if name not in seen.wrote]
    if not names or len(missing) < len(names):  # one of them is true: the others may be spoken of
        return ""
    if broken := [name for name in missing if name in seen.failed]:
        return f"writing {', '.join(broken)} failed"
    if not seen.ran:
        return f"no tool wrote {', '.join(missing[:3])}"
    known = None if seen.beyond or any(path.startswith(("/", "~")) for path in named) else changed()
    if known is None or any(name in known for name in missing):
        return ""
    return f"no tool wrote {', '.join(missing[:3])}, and no command changed such a file of the workspace"


def _check_messages(_said: str, seen: RunEvidence, _changed: Changed) -> str:
    known = seen.sent or seen.ran or seen.obscure
    return "" if known else "no message was sent in this conversation (no receipt)"


def _check_jobs(_said: str, seen: RunEvidence, _changed: Changed) -> str:
    return "" if seen.scheduled or seen.ran or seen.obscure else "no job was made in this conversation"


def _check_done(_said: str, seen: RunEvidence, _changed: Changed) -> str:
    last = seen.commands[-1] if seen.commands else None
    if last is None or not last.code or seen.open_end or seen.unchecked or seen.obscure or _ASKING.search(last.line):
        return ""
    return f"the last command ended with exit code {last.code}: {last.line[:80]}"


# What is claimed, by which words, and what bears it out.
_RULES: dict[str, tuple[re.Pattern[str], Callable[[str, RunEvidence, Changed], str]]] = {
    "tests": (_TESTS_PASS, _check_tests),
    "files": (_WROTE, _check_files),
    "messages": (_SENT, _check_messages),
    "jobs": (_SCHEDULED, _check_jobs),
    "done": (_FIXED, _check_done),
}


def check_claims(text: str, messages: Sequence[Message], changed: Changed = lambda: None) -> tuple[UnprovenClaim, ...]:
    """The claims of an answer that the conversation up to it does not bear out, in their order. What happened is
    gathered only if something is claimed."""
    if is_silent(text):
        return ()
    plain = _QUOTE.sub("", _CODE.sub("\n", text[:READ]))
    seen: RunEvidence | None = None
    found: list[UnprovenClaim] = []
    for sentence in _SENTENCE.split(plain):
        said, low = sentence.strip(), sentence.lower()
        if len(said) > LONGEST or not any(stem in low for stem in _STEMS):  # most sentences end here: it is cheap
            continue
        for kind, (words, check) in _RULES.items():
            if any(kind == one.kind for one in found) or words.search(said) is None or _HEDGE.search(said):
                continue
            if kind in ("done", "tests") and _TROUBLE.search(plain):  # it speaks of trouble itself
                continue
            seen = gather_evidence(messages) if seen is None else seen
            if fact := check(said, seen, changed):
                found.append(UnprovenClaim(kind, said[:QUOTED], fact))
    return tuple(found[:MOST])


def write_finding(claims: tuple[UnprovenClaim, ...], *, asked: bool) -> str:
    """For the trace."""
    return msgspec.json.encode(EvidenceFinding(claims, asked)).decode()


def write_doubt(claims: Sequence[UnprovenClaim]) -> str:
    """What the model is told, once."""
    lines = "\n".join(f'- You said: "{one.said}" But {one.fact}.' for one in claims)
    return (
        f"{MARK} Your answer claims what the record of this run does not bear out:\n{lines}\n"
        "Do what is missing, or correct the answer. Do not repeat the claim without evidence."
    )


def format_claims(claims: Sequence[UnprovenClaim]) -> tuple[str, ...]:
    """A line for the person, for each."""
    return tuple(f'⚠️ Not borne out: "{one.said}" ({one.fact})' for one in claims)


def was_doubted(messages: Sequence[Message]) -> bool:
    """Was the model told so already since the last message of somebody else?"""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return message.text.startswith(MARK)
    return False
