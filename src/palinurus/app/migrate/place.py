"""Puts what was found into our home, one thing after the other. Each is on disk before it is noted as done, and what is
noted is not touched again: a second run changes nothing, one that was killed is run again. The other home is only read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from palinurus.app.migrate.found import LARGEST, FoundFile, FoundHome, FoundPerson, FoundSession, ImportLine
from palinurus.clock import Clock
from palinurus.config.check import check_config, describe_key, find_note
from palinurus.config.keypath import Path, show_path
from palinurus.config.rewrite import adjust_config
from palinurus.config.sections.approvals import APPROVALS_FILE, change_approvals
from palinurus.core.schedule.job import make_job
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import BadRequest, StateBroken
from palinurus.files import read_plain_file
from palinurus.inbox.pairing import LET_IN, PairedPerson
from palinurus.sessions.files import place_file
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import Store
from palinurus.triggers.jobs import JOB
from palinurus.workspace.bootstrap import FIRST, read_template

KIND = "import"  # of the records that say what is done
OTHERS = "group import"  # a source (taint): nobody knows any more who of a group it was
# Fields of a session that are the other program's notes about itself, large and of no use here.
_DROPPED = ("skillsSnapshot", "systemPromptReport", "sessionFile", "status")


class HomeImporter:
    """Into `home`. Without a store nothing is written, and the lines say what would be."""

    def __init__(self, home: str, environ: Mapping[str, str], clock: Clock, store: Store | None) -> None:
        self._home = home
        self._environ = environ
        self._clock = clock
        self._store = store
        self._program = ""

    async def run(self, found: FoundHome, only: Collection[str]) -> list[ImportLine]:
        """Every thing with its fate. `only`: these parts. Raises ConfigError, StateError."""
        self._program = found.program.lower()
        made: list[ImportLine] = []
        for file in found.files:
            if file.part in only:
                made.append(await self._file(file))
        self._end_bootstrap([file.place for file in found.files if file.part in only])
        for session in found.sessions if "sessions" in only else ():
            made.append(await self._session(session))
        for job in found.jobs if "jobs" in only else ():
            made.append(await self._job(job))
        for person in found.people if "people" in only else ():
            made.append(await self._person(person))
        if found.approvals and "approvals" in only:
            made += self._approvals(found.approvals)
        config = self._config(found) if "config" in only else ()  # last: a gateway that runs starts anew with it
        return [*config, *made, *(line for line in found.lines if line.part in only)]

    # --- what is done ------------------------------------------------------------------------------------------

    async def _once(self, line: ImportLine, mark: bytes, do: Callable[[], Awaitable[object]]) -> ImportLine:
        """`line`, after `do` has done it, unless an earlier run has done the same."""
        if self._store is None:
            return line
        if await self._has_brought(line, mark):
            return msgspec.structs.replace(line, done=True)
        await do()
        pass_crashpoint("import.placed")
        await self._store.put_record(KIND, self._mark(line), _digest(mark))
        pass_crashpoint("import.noted")
        return line

    async def _has_brought(self, line: ImportLine, data: bytes) -> bool:
        """Whether an earlier run brought just these bytes."""
        before = None if self._store is None else await self._store.get_record(KIND, self._mark(line))
        return before is not None and before.data == _digest(data)

    def _mark(self, line: ImportLine) -> str:
        return f"{self._program}/{line.part}/{line.name}"

    # --- config ------------------------------------------------------------------------------------------------

    def _config(self, found: FoundHome) -> Iterator[ImportLine]:
        """What stands in our file stays; the rest comes over, but for what would do nothing here."""
        wrong = {finding.path: finding.message for finding in check_config(found.config).wrong if finding.fatal}
        lines: list[ImportLine] = []

        def lay(ours: Any) -> Any:
            lines.clear()
            return _lay(ours if isinstance(ours, dict) else {}, found.config, (), note)

        def note(path: Path, value: Any, own: Any) -> bool:
            """Whether the value is taken."""
            name, mine = show_path(path), find_note(path).inert
            if bad := next((text for at, text in wrong.items() if path[: len(at)] == at), ""):
                lines.append(ImportLine("config", name, "lost", bad))
            elif mine:
                lines.append(ImportLine("config", name, "lost", f"not acted on: {mine}"))
            elif describe_key(path) is None:
                lines.append(ImportLine("config", name, "lost", "no such key here"))
            elif own is not None and own != value:
                lines.append(ImportLine("config", name, "changed", "what stands in your config here stays"))
            else:
                how = next((text for key, text in found.changed_keys.items() if f".{key}." in f".{name}."), "")
                lines.append(ImportLine("config", name, "changed" if how else "kept", how, done=own == value))
                return True
            return False

        if self._store is None:
            lay({})
        else:
            adjust_config(self._home, self._environ, lay)
        return iter(lines)

    # --- files -------------------------------------------------------------------------------------------------

    async def _file(self, file: FoundFile) -> ImportLine:
        line = ImportLine(file.part, file.place, "kept")
        try:
            theirs = file.read()
        except OSError as error:
            return msgspec.structs.replace(line, fate="lost", why=f"cannot be read: {error.strerror or error}")
        place = file.place
        ours = self._read(place)
        own = ours is not None and ours != theirs and not _is_template(place, ours)
        if own and not await self._has_brought(line, ours or b""):
            place = f"{place}.{self._program}"
            why = f"there is another one here; theirs is beside it as {os.path.basename(place)}"
            line = msgspec.structs.replace(line, fate="changed", why=why)

        async def do() -> None:
            place_file(self._home, place, theirs)
            os.chmod(os.path.join(self._home, place), file.mode)

        return await self._once(line, theirs, do)

    def _end_bootstrap(self, places: list[str]) -> None:
        """An agent that has a character already is not asked for one: our own first-run page goes."""
        for folder in {place.partition("/")[0] for place in places if place.endswith("/SOUL.md")}:
            first = f"{folder}/{FIRST}"
            if self._store is not None and first not in places and self._read(first) == read_template(FIRST):
                os.unlink(os.path.join(self._home, first))

    # --- records -----------------------------------------------------------------------------------------------

    async def _session(self, session: FoundSession) -> ImportLine:
        line = ImportLine("sessions", session.key, "changed" if session.why else "kept", session.why)
        key = parse_session_key(session.key)
        try:
            data = session.read()
            raw = {name: value for name, value in session.record.items() if name not in _DROPPED}
            record = SessionRecord.decode(msgspec.json.encode(raw))
        except FileNotFoundError:
            data = b""
        except (OSError, BadRequest, StateBroken) as error:
            return msgspec.structs.replace(line, fate="lost", why=str(error))
        if key is None:
            return msgspec.structs.replace(line, fate="lost", why="its key cannot be read")
        if not data:
            return msgspec.structs.replace(line, fate="lost", why="there is no transcript")
        if self._store is None:
            return line
        row = await self._store.session(str(key))
        if row is not None and row.session_id != record.sessionId:
            key = SessionKey(key.agent, f"explicit:{record.sessionId.lower()}")
            why = f"{session.key} is in use here: it is {key}"
            line = msgspec.structs.replace(line, fate="changed", why=why)
        store, path, stands = self._store, record.path(key.agent), row.data if row is not None else None
        if record.chatType not in (None, "direct") or ":group:" in session.key or ":channel:" in session.key:
            data = b"\n".join(map(_mark_others, data.splitlines()))
        data = data if data.endswith(b"\n") else data + b"\n"
        if not data.startswith(self._read(path) or b""):
            return msgspec.structs.replace(line, fate="changed", why="it went on here since it came over", done=True)

        async def do() -> None:
            place_file(self._home, path, data)
            if not await store.save_session(record.row(key), expect=stands):
                raise StateBroken(f"{key} was begun here just now", fix="import again: it comes beside it then")

        return await self._once(line, data, do)

    def _read(self, place: str) -> bytes | None:
        try:
            return read_plain_file(os.path.join(self._home, place), LARGEST)
        except OSError:
            return None

    async def _job(self, job: dict[str, Any]) -> ImportLine:
        ident = str(job.get("id") or "")
        line = ImportLine("jobs", str(job.get("name") or ident), "kept")
        try:
            made = make_job(job, ident, self._clock.now(), "main", tz="")
        except ValueError as error:
            return msgspec.structs.replace(line, fate="lost", why=str(error))
        return await self._put(line, msgspec.json.encode(job), (JOB, made.id), made)

    async def _person(self, person: FoundPerson) -> ImportLine:
        paired = PairedPerson(
            person.channel, person.account, person.id, self._clock.now(), by=f"import: {self._program}"
        )
        return await self._put(
            ImportLine("people", paired.who, "kept"), paired.key.encode(), (LET_IN, paired.key), paired
        )

    async def _put(self, line: ImportLine, mark: bytes, place: tuple[str, str], value: msgspec.Struct) -> ImportLine:
        store = self._store
        if store is None:
            return line
        return await self._once(line, mark, lambda: store.put_record(*place, msgspec.json.encode(value)))

    def _approvals(self, theirs: dict[str, Any]) -> Iterator[ImportLine]:
        """Rules for commands, by agent. Ours are the stricter: the rule comes over, how it is judged does not."""
        wanted = {
            (agent, str(entry.get("pattern")))
            for agent, owner in (theirs.get("agents") or {}).items()
            if isinstance(owner, dict)
            for entry in owner.get("allowlist") or ()
            if isinstance(entry, dict) and entry.get("pattern")
        }
        added: set[tuple[str, str]] = set()

        def edit(raw: dict[str, Any]) -> bool:
            for agent, pattern in sorted(wanted):
                rules = raw.setdefault("agents", {}).setdefault(agent, {}).setdefault("allowlist", [])
                if not any(isinstance(rule, dict) and rule.get("pattern") == pattern for rule in rules):
                    rules.append({"pattern": pattern, "source": f"import: {self._program}"})
                    added.add((agent, pattern))
            return bool(added)

        if self._store is not None and wanted:
            change_approvals(os.path.join(self._home, APPROVALS_FILE), edit)
            if added:
                pass_crashpoint("import.placed")
        for agent, pattern in sorted(wanted):
            done = self._store is not None and (agent, pattern) not in added
            yield ImportLine("approvals", f"{agent}: {pattern}", "kept", done=done)


def _lay(ours: dict[str, Any], theirs: dict[str, Any], path: Path, take: Callable[[Path, Any, Any], bool]) -> Any:
    """`ours` with what `take` takes of `theirs`, leaf by leaf. Lists of things with an id are joined by it."""
    made = dict(ours)
    for key, value in theirs.items():
        at = (*path, key)
        own = made.get(key)
        if isinstance(value, dict) and value and not isinstance(own, str | int | float | list):
            below = _lay(own or {}, value, at, take)
            if below:
                made[key] = below
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            mine = [one for one in own if isinstance(one, dict)] if isinstance(own, list) else []
            twins = [next((each for each in mine if _is_twin(each, one)), None) for one in value]
            items = [
                _lay(twin or {}, one, (*at, n), take) for n, (one, twin) in enumerate(zip(value, twins, strict=True))
            ]
            made[key] = [*mine, *(one for one, twin in zip(items, twins, strict=True) if twin is None)]
        elif take(at, value, own):
            made[key] = value
    return made


def _is_twin(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return ours.get("id") == theirs["id"] if "id" in theirs else ours == theirs


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _is_template(place: str, data: bytes) -> bool:
    """Whether it is what we put there ourselves, untouched."""
    name = os.path.basename(place)
    try:
        return name != FIRST and data == read_template(name)
    except OSError:
        return False


def _mark_others(line: bytes) -> bytes:
    """What a person said there is not the owner's word, as it would not be if it had been said here."""
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return line
    said = entry.get("message") if isinstance(entry, dict) else None
    if not isinstance(said, dict) or said.get("role") != "user":
        return line
    return msgspec.json.encode({**entry, "message": {**said, "source": said.get("source") or OTHERS}})
