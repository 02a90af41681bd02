"""What the commands share: the line parsed by one kind of parser or one table of verbs (a wrong line is a BadRequest,
exit code 64), the config, the agent and the session that are meant, JSON for programs, yes or no from a person.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from palinurus.cli.main import PARTS, CollectedOutput, load_part
from palinurus.config import paths
from palinurus.core import durations
from palinurus.core.text import repair_surrogates
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import BadRequest, NotFound, PalinurusError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from palinurus.config.load import LoadedConfig
    from palinurus.config.settings import AgentSettings, Settings
    from palinurus.core.types.vendor import Vendor

Argument: TypeAlias = tuple[tuple[str, ...], dict[str, Any]]  # flags or a name, and what argparse is told about it


# Who asks a person, or serves a program, while it goes on.
TALKING = frozenset(
    f"pal {line}"
    for line in (
        "chat", "-p", "print", "setup", "acp", "mcp serve", "mcp login", "models login", "models add", "channels add",
        "channels login", "node run", "gateway", "sessions export", "test", "torture",
    )
)  # fmt: skip


class _CollectOutput(argparse.Action):
    """From here on what is printed is kept; `main` prints it as JSON when the command is over."""

    def __init__(self, option_strings: list[str], dest: str, **given: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, **given)

    def __call__(self, *given: object) -> None:
        if not isinstance(sys.stdout, CollectedOutput):
            sys.stdout = CollectedOutput()


class CommandParser(argparse.ArgumentParser):
    """argparse, but a wrong line raises instead of exiting with 2, and an option is never guessed from its start."""

    def __init__(self, command: str = "", description: str = "", *, prog: str = "", **given: Any) -> None:
        super().__init__(prog or f"pal {command}", description=description or None, allow_abbrev=False, **given)

    def error(self, message: str) -> NoReturn:
        raise BadRequest(_say_plainly(self, message), fix=f"`{self.prog} --help`")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """A word of a fixed list that is none of them: which may be meant, or which there are."""
        if action.choices is None or value in action.choices:
            return
        known, flag = [str(one) for one in action.choices], "/".join(action.option_strings)
        if near := difflib.get_close_matches(str(value), known, 1):
            fix = f"did you mean `{flag or self.prog} {near[0]}`?"
        else:
            fix = f"use one of: {', '.join(known)}"
        raise BadRequest(f"{flag} cannot be {value!r}" if flag else f"there is no `{self.prog} {value}`", fix=fix)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it; what is too much is named by the command that has no use for it."""
        found, rest = self.parse_known_args(args, namespace)
        parser: argparse.ArgumentParser = self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and rest:
                parser = action.choices[getattr(found, action.dest)]
        if not rest:
            return found
        near = difflib.get_close_matches(rest[0].partition("=")[0], parser._option_string_actions, 1, 0.75)
        word = "no option" if rest[0].startswith("-") else "no use for"
        fix = f"did you mean {near[0]}?" if near and rest[0].startswith("-") else f"`{parser.prog} --help`"
        raise BadRequest(f"`{parser.prog}` has {word} {rest[0]}", fix=fix)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it; a line that has no JSON of its own has one that holds what would be printed."""
        self.offer_json()
        return super().parse_known_args(args, namespace)

    def offer_json(self) -> None:
        """`--json` for whoever lacks it, unless somebody is to be talked to, or a program is."""
        verbs = any(isinstance(one, argparse._SubParsersAction) for one in self._actions)
        if not verbs and "--json" not in self._option_string_actions and self.prog not in TALKING:
            self.add_argument("--json", action=_CollectOutput, nargs=0, help="print JSON: ok, and what was said")

    def format_help(self) -> str:
        """With lines that work; whoever wrote its own has it."""
        self.offer_json()
        told = super().format_help()
        command = self.prog.removeprefix("pal ").partition(" ")
        look: Any = load_part(PARTS["examples"])
        lines = () if self.epilog else look(command[0])
        mine = [line for line in lines if line.startswith(self.prog)] or ([] if command[2] else lines)
        return told + "\nexamples:\n" + "".join(f"  {line}\n" for line in mine) if mine else told

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """For people; whoever collects parsers gets this one instead."""
        self.offer_json()
        if (seen := SEEN_PARSERS.get()) is None:
            super().print_help(file)
        else:
            seen.append(self)


def _say_plainly(parser: argparse.ArgumentParser, message: str) -> str:
    """argparse's errors in words of ours."""
    if missing := message.partition("are required: ")[2]:
        known = (one.choices for one in parser._actions if one.choices and missing in (one.metavar, one.dest))
        words = next(known, None)
        return f"`{parser.prog}` needs " + (f"one of: {', '.join(map(str, words))}" if words else missing)
    if number := re.fullmatch(r"argument (\S+): invalid (?:int|float) value: (.*)", message):
        return f"{number[1]} needs a number, not {number[2]}"
    return re.sub(r"argument (\S+): expected .*", r"\1 needs a value", message)


SEEN_PARSERS: ContextVar[list[CommandParser] | None] = ContextVar("seen parsers", default=None)


def read_message_text(given: str) -> str:
    """What somebody says on the command line; "-" reads it from stdin. Bytes that are no text are replaced."""
    return repair_surrogates(sys.stdin.read() if given == "-" else given)


class Verb(msgspec.Struct, frozen=True):
    """One verb of a command: the function that does it, what it does in words, its arguments (`make_arg`)."""

    run: Callable[..., Any]
    help: str
    args: tuple[Argument, ...] = ()


def make_arg(*flags: str, **about: Any) -> Argument:
    """An argument of a verb, in argparse's words."""
    return flags, about


JSON = make_arg("--json", action="store_true", help="print JSON")


def make_verb_parser(command: str, description: str, verbs: Mapping[str, Verb]) -> CommandParser:
    """The parser of a command with verbs. What it parses has the verb in `what` and its function in `run`."""
    parser = CommandParser(command, description)
    rows = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    for name, verb in verbs.items():
        row = rows.add_parser(name, help=verb.help, description=verb.help)
        row.set_defaults(run=verb.run)
        for flags, about in verb.args:
            row.add_argument(*flags, **about)
    return parser


def parse_verb(
    command: str, description: str, verbs: Mapping[str, Verb], argv: list[str], default: str = ""
) -> argparse.Namespace:
    """The line of a command with verbs; `default` is the verb of a line that names none. Raises BadRequest."""
    if default and (not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help"))):
        argv = [default, *argv]
    asked: argparse.Namespace = make_verb_parser(command, description, verbs).parse_args(argv)
    return asked


def load_extra(part: str, extra: str, modules: tuple[str, ...], what: str) -> Any:
    """A part of `main.PARTS` that needs an extra, which brings `modules`. Raises PalinurusError where it is missing."""
    try:
        return load_part(PARTS[part])
    except ModuleNotFoundError as exc:
        if exc.name not in modules:
            raise
        raise PalinurusError(f"{what} needs an extra that is not installed", fix=f"`pal extras add {extra}`") from None


def load_settings(environ: Mapping[str, str], *, told: bool = False) -> LoadedConfig:
    """The config in force. That it is not what the file says is printed, unless whoever asks tells it (`told`). From
    here on, files we make are ours alone. Raises ConfigError."""
    os.umask(0o077)
    load: Any = load_part(PARTS["config"])
    loaded: LoadedConfig = load(paths.find_home(environ), environ)
    if loaded.fallback and not told:
        print(f"pal: {loaded.fallback}", file=sys.stderr)
    return loaded


def load_vendors(settings: Settings) -> dict[str, Vendor]:
    """Model vendors of plugins. These hang on the whole program, which is loaded only where one is enabled."""
    if not settings.plugins.enabled_ids:
        return {}
    load: Any = load_part(PARTS["brought"])
    return dict(load(settings).vendors)


def find_agent(settings: Settings, name: str | None) -> AgentSettings:
    """The agent that is meant; without a name the default one. Raises NotFound."""
    agent = settings.agents.get(name or settings.default_agent)
    if agent is None:
        raise NotFound(f"there is no agent {name!r}", fix=f"there is: {', '.join(settings.agents)}")
    return agent


def read_session_key(text: str, agent: str = "main") -> SessionKey:
    """A session key as people write it; a bare word is a session of `agent`. Raises BadRequest."""
    key = parse_session_key(text, agent)
    if key is None:
        raise BadRequest(f"{text!r} is not a session key", fix="write it as agent:<agent>:<name>, or just <name>")
    return key


def resolve_session_key(settings: Settings, typed: str, agent: str) -> SessionKey:
    """The session a person means; "" is the agent's main one. Raises BadRequest."""
    found = read_session_key(typed or settings.session.main_key, agent or settings.default_agent)
    if found.agent not in settings.agents:
        known = ", ".join(sorted(settings.agents))
        raise BadRequest(f"there is no agent {found.agent!r}", fix=f"use one of: {known}")
    return found


def parse_since(text: str, now: int) -> int:
    """A duration back from `now` or a date, in milliseconds since the epoch. Raises BadRequest."""
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        back = durations.parse_duration(text, "d")
    if back is None:
        raise BadRequest(f"--since {text!r} is neither a duration nor a date", fix="write 7d, 24h or 2026-11-01")
    return max(0, now - int(back * 1000))


def read_pair(text: str, shape: str = "NAME=VALUE", most: int = 60) -> tuple[str, str]:
    """The two halves of NAME=VALUE. Raises BadRequest, which shows the first `most` characters."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BadRequest(f"{text[:most]!r} is not {shape}")
    return name.strip(), value


def ask_person(question: str) -> bool:
    """Whether the person at the terminal says yes; silence is a no."""
    if isinstance(sys.stdout, CollectedOutput):
        sys.stderr.write(question)
        question = ""
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def to_json(value: Any, *, pretty: bool = False) -> str:
    """For programs: on one line, or indented where people look at it too."""
    data = msgspec.json.encode(value)
    return (msgspec.json.format(data, indent=2) if pretty else data).decode()


def format_rows(rows: list[tuple[str, str]], width: int) -> str:
    """Label and text, a line each; a text that says nothing has none."""
    return "\n".join(f"{label:<{width}} {text}" for label, text in rows if text)
