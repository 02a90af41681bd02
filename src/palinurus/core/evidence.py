"""What an answer claims to have done, held against what happened: exit codes, receipts of tools, changed files. Pure,
and no model is asked.

Few false alarms before many finds: a sentence counts only if it plainly says that the speaker has done something just
now (no question, no condition, no negation, no code, no quotation, no draft; not what others did, nor what once was),
in words of `_RULES`, and only where what happened is known. Where a call for it failed, less plain words count too. Who
ran something whose effects nobody sees (a browser, a plugin's tool, a sub-agent) is believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from palinurus.core.policy.command import only_reads
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
    "session_search sessions_list sessions_history agents_list".split()
)  # fmt: skip

_KINDS = {**dict.fromkeys(FILE_TOOLS, "files"), "message": "messages", "cron": "jobs"}


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
    changed: frozenset[str] = frozenset()  # names of files that commands changed
    beyond: bool = False  # perhaps others, too: outside the workspace, or it was not looked at
    obscure: bool = False  # a tool was used whose effects are not known here
    refused: frozenset[str] = frozenset()  # kinds of claims for which a call of this run failed


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
        self._flags: dict[str, Any] = dict.fromkeys(
            ("open_end", "unchecked", "sent", "scheduled", "ran", "beyond", "obscure"), False
        )
        self._wrote: set[str] = set()
        self._failed: set[str] = set()
        self._changed: set[str] = set()
        self._refused: set[str] = set()

    def make(self) -> RunEvidence:
        sets = {"wrote": self._wrote, "failed": self._failed, "changed": self._changed, "refused": self._refused}
        made: dict[str, Any] = {name: frozenset(one) for name, one in sets.items()}
        return RunEvidence(tuple(self._commands), **made, **self._flags)

    def take(self, call: ToolCall, result: ToolResult, *, own: bool) -> None:
        flags, good = self._flags, not result.isError
        if own and not good and call.name in _KINDS:
            self._refused.add(_KINDS[call.name])
        if call.name in FILE_TOOLS:
            names = _name_written(call)
            (self._wrote if good else self._failed).update(names)
            (self._failed if good else set[str]()).difference_update(names)
            flags["unchecked"] |= own and good
        elif call.name == "exec" and own:
            flags["ran"] = True
            self._run(call, result)
        elif call.name == "process" and own:
            flags["ran"] = flags["open_end"] = flags["beyond"] = True
        elif call.name == "message":
            flags["sent"] |= good and call.arguments.get("action", "send") not in ("read", "search")
        elif call.name == "cron":
            flags["scheduled"] |= good  # or a list of those there are: they may be spoken of
        elif call.name not in KNOWN:
            flags["obscure"] |= own

    def _run(self, call: ToolCall, result: ToolResult) -> None:
        details: Any = result.details if isinstance(result.details, dict) else {}
        command, changed = str(call.arguments.get("command") or ""), details.get("changed")
        if isinstance(changed, list):
            self._changed |= {str(path).rpartition("/")[2] for path in changed}
        seen = isinstance(changed, list) or only_reads(command)
        self._flags["beyond"] |= not seen or bool(call.arguments.get("workdir") or _BEYOND.search(command))
        if details.get("status") == "running":
            self._flags["open_end"] = True
            return
        code = details.get("exitCode")
        if code is None and not result.isError:
            self._flags["open_end"] = True  # of another form: nobody knows how it ended
            return
        line = " ".join(command.split())
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
    r"except|but|however|although|earlier|yesterday|already|previously|example|e\.g|make sure|ensures?|verif(?:y|ies)|"
    r"check|confirm|before|"
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
# An answer that begins so reports: the verb may come first.
_REPORT = compile_late(r"(?:(?:done|all set|okay|ok|sure|erledigt|fertig)\b|[\s✅✓☑.!,:])*", re.IGNORECASE)
# Somebody else will have said it: a letter, a text that was asked for.
_DRAFT = compile_late(
    r"\b(?:draft|template|commit message|wording|poem|haiku|story|lyrics|entwurf|vorlage|gedicht|geschichte|"
    r"formulierung)\b"
    r"|^\W*(?:subject|betreff)\s*:"
    r"|^\W*(?:dear|hi|hello|hey|hallo|liebe[rs]?|guten \w+|sehr geehrte[rs]?)\b[^.!?\n]{0,40},\s*$"
    r"|^\W*(?:best|kind regards|best regards|regards|cheers|sincerely|yours|viele grüße|liebe grüße|"
    r"mit freundlichen grüßen)\b[^.!?\n]{0,20}$",
    re.IGNORECASE | re.MULTILINE,
)
_I = r"\bi(?:['’]ve|\s+have|\s+just|\s+also|\s+then|\s+successfully)*\s+"
# nothing follows that says when, where or by whom: that would be news, not a report
_HAS_BEEN = r"\b(?:has|have)\s+been\s+(?:successfully\s+|now\s+|also\s+)*"
_ELSEWHERE = r"(?!\s+(?:by|on|in|at|since|from|during|for)\b)"
_ICH = r"\bhabe\b.{0,120}\b"
_WURDE = r"\b(?:wurden?|ist|sind)\s+(?:nun\s+|jetzt\s+|erfolgreich\s+|soeben\s+)*"
_MAIL = r"\b(?:nachricht|e-?mail|mail)\b"
_JOB = r"\b(?:erinnerung|cronjob|wecker|termin|zeitplan)\b"
_END = r"\s*[.!]?$"

_VERBS = r"(?:created|written|wrote|saved|added|updated|edited|modified|changed|generated|deleted|removed|renamed)\b"
_VERBEN = (
    r"(?:erstellt|angelegt|geschrieben|gespeichert|ergänzt|aktualisiert|bearbeitet|geändert|angepasst|erzeugt|gelöscht|"
    r"entfernt|umbenannt)\b"
)
_SENDS = r"(?:sent|emailed|messaged|texted)\b.{0,80}\b(?:message|e-?mail|mail|text|note|reply|them|him|her|you|to)\b"
_SENDET = r"(?:gesendet|geschickt|verschickt|versendet|abgeschickt)\b"
_MADE = r"(?:scheduled|created|added)\b.{0,60}\b(?:reminders?|cron ?jobs?|jobs?|alarms?|timers?)\b"
_SETS = rf"(?:set(?:\s+up)?\b.{{0,60}}\b(?:reminders?|cron ?jobs?|jobs?|alarms?|timers?)\b|{_MADE})"
_STELLT = r"(?:eingerichtet|gesetzt|angelegt|erstellt|geplant|gestellt|eingeplant)\b"
_TIMER = r"\b(?:reminder|cron ?job|alarm|timer)\b"


def _compile(*ways: str) -> re.Pattern[str]:
    return compile_late("|".join(ways), re.IGNORECASE)


_TESTS_PASS = _compile(
    r"\b(?:tests?|test suite|specs?)\s+(?:now\s+|all\s+|are\s+|is\s+|have\s+)*"
    r"(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b",
    r"\b(?:alle|die|sämtliche)\s+(?:\w+\s+)?tests?\s+(?:sind\s+|laufen\s+|jetzt\s+|nun\s+|wieder\s+|alle\s+)*"
    r"(?:grün|bestanden|bestehen|durchgelaufen|durch|erfolgreich|fehlerfrei)\b",
)
_WROTE = _compile(
    rf"{_I}{_VERBS}",
    rf"{_I}(?:{_VERBS}|(?:made|put|moved|ran|read|opened|took)\b)[^,]{{1,120}}\band\s+{_VERBS}",
    rf"{_HAS_BEEN}{_VERBS}{_ELSEWHERE}",
    rf"{_ICH}{_VERBEN}",
    rf"{_WURDE}{_VERBEN}{_END}",
)
_SENT = _compile(
    rf"{_I}{_SENDS}",
    rf"\b(?:message|e-?mail)\b.{{0,60}}{_HAS_BEEN}sent\b{_ELSEWHERE}",
    rf"\bhabe\b.{{0,120}}{_MAIL}.{{0,80}}\b{_SENDET}",
    rf"{_MAIL}.{{0,80}}{_WURDE}{_SENDET}{_END}",
)
_SCHEDULED = _compile(
    rf"{_I}{_SETS}",
    rf"{_TIMER}.{{0,60}}(?:{_HAS_BEEN}(?:set|scheduled|created)\b{_ELSEWHERE}|\bis\s+(?:now\s+)?set{_END})",
    rf"\bhabe\b.{{0,120}}{_JOB}.{{0,80}}\b{_STELLT}",
    rf"{_JOB}.{{0,80}}{_WURDE}{_STELLT}{_END}",
)
_FIXED = _compile(
    rf"(?:^|{_I}|\b(?:is|are)\s+(?:now\s+)?|{_HAS_BEEN})(?:fixed|resolved)\b{_ELSEWHERE}",
    r"\b(?:works now|now works|working now|is (?:now )?(?:done|working|complete)|all done)\b",
    r"\b(?:completed successfully|builds? (?:now )?(?:successfully|cleanly|passes)|runs? successfully)\b",
    r"\b(?:habe\b.{0,120}|(?:ist|sind)\s+(?:\w+\s+){0,2}|^)\b(?:behoben|gefixt|repariert|erledigt)\b",
    r"\b(?:alles fertig|erfolgreich abgeschlossen)\b",
    r"\b(?:funktioniert|läuft) (?:jetzt|nun|wieder)\b",
)


def _check_tests(_said: str, seen: RunEvidence) -> str:
    if seen.open_end or seen.obscure:
        return ""
    last = next((one for one in reversed(seen.commands) if one.test), None)
    if last is not None and last.code:
        return f"the last test run ended with exit code {last.code}: {last.line[:80]}"
    if last is None and seen.unchecked and not seen.ran:
        return "files were changed and no command ran after it"
    return ""


def _check_files(said: str, seen: RunEvidence) -> str:
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
    unknown = seen.beyond or any(path.startswith(("/", "~")) for path in named)
    if unknown or any(name in seen.changed for name in missing):
        return ""
    return f"no tool wrote {', '.join(missing[:3])}, and no command changed such a file of the workspace"


def _check_messages(_said: str, seen: RunEvidence) -> str:
    known = seen.sent or seen.ran or seen.obscure
    return "" if known else "no message was sent in this conversation (no receipt)"


def _check_jobs(_said: str, seen: RunEvidence) -> str:
    return "" if seen.scheduled or seen.ran or seen.obscure else "no job was made in this conversation"


def _check_done(_said: str, seen: RunEvidence) -> str:
    last = seen.commands[-1] if seen.commands else None
    if last is None or not last.code or seen.open_end or seen.unchecked or seen.obscure or _ASKING.search(last.line):
        return ""
    return f"the last command ended with exit code {last.code}: {last.line[:80]}"


class _Rule(NamedTuple):
    """A kind of claim: words that plainly claim it, words that do at the beginning of an answer, words that do after a
    call for it has failed; and what bears it out."""

    plain: re.Pattern[str]
    first: re.Pattern[str] | None
    loose: re.Pattern[str] | None
    check: Callable[[str, RunEvidence], str]


_RULES: dict[str, _Rule] = {
    "tests": _Rule(_TESTS_PASS, None, None, _check_tests),
    "files": _Rule(_WROTE, _compile(_VERBS), _compile(_VERBS, _VERBEN), _check_files),
    "messages": _Rule(_SENT, _compile(_SENDS), _compile(r"\bsent\b", _SENDET), _check_messages),
    "jobs": _Rule(_SCHEDULED, _compile(_MADE), _compile(_SETS, rf"{_TIMER}.*\bset\b", _STELLT), _check_jobs),
    "done": _Rule(_FIXED, None, None, _check_done),
}


def check_claims(text: str, messages: Sequence[Message]) -> tuple[UnprovenClaim, ...]:
    """The claims of an answer that the conversation up to it does not bear out, in their order. What happened is
    gathered only if something is claimed."""
    if is_silent(text):
        return ()
    plain = _QUOTE.sub("", _CODE.sub("\n", text[:READ]))
    seen: RunEvidence | None = None
    found: list[UnprovenClaim] = []
    for at, sentence in _list_sentences(plain):
        for kind, rule in _RULES.items():
            if any(kind == one.kind for one in found) or _HEDGE.search(sentence):
                continue
            if kind in ("done", "tests") and _TROUBLE.search(plain):  # it speaks of trouble itself
                continue
            claims = _is_claim(rule, sentence, at, plain)
            if not claims and (rule.loose is None or rule.loose.search(sentence) is None):
                continue
            seen = gather_evidence(messages) if seen is None else seen
            if (claims or kind in seen.refused) and (fact := rule.check(sentence, seen)):
                found.append(UnprovenClaim(kind, sentence[:QUOTED], fact))
    return tuple(found[:MOST])


def _list_sentences(plain: str) -> Iterator[tuple[int, str]]:
    """Those that may claim something, and where they begin. Most do not: that is cheap to see."""
    low = plain.lower()
    stems = [stem for stem in _STEMS if stem in low]
    if not stems:
        return
    start = 0
    for piece in (*_SENTENCE.finditer(plain), None):
        end = piece.start() if piece is not None else len(plain)
        said = plain[start:end].strip()
        if len(said) <= LONGEST and any(stem in said.lower() for stem in stems):
            yield plain.index(said, start), said
        start = piece.end() if piece is not None else end


def _is_claim(rule: _Rule, said: str, at: int, plain: str) -> bool:
    if rule.plain.search(said) is not None:
        return _DRAFT.search(plain) is None
    lead = _REPORT.match(plain)
    if rule.first is None or lead is None or at > lead.end():
        return False
    return rule.first.match(said, max(0, lead.end() - at)) is not None and _DRAFT.search(plain) is None


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
