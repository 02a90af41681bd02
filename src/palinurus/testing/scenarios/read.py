"""Scenarios of a folder: YAML files, and Python files with functions that get an agent. A mistake is told with its line
and what to write instead, all of them at once and before anything runs.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Annotated, Any, Literal

import msgspec

from palinurus.config.paths import find_home, locate_config_file
from palinurus.config.relaxed import decode_json5
from palinurus.core.jsonschema import list_unsupported
from palinurus.core.policy.groups import BUILTIN_TOOLS
from palinurus.core.skills.frontmatter import BadFrontMatter, parse_yaml
from palinurus.errors import BadRequest
from palinurus.patterns import compile_late
from palinurus.testing.home import OUTWARD, overlay_config
from palinurus.testing.scenarios.judge import GRADERS, SINKS, WITH, TurnCheck
from palinurus.testing.scenarios.subject import DEMO, LIMIT, AgentOptions, AgentUnderTest, ScriptLine

PREFIX = "scenario_"  # of Python files, and of their functions
_KEYS = ("auth", "secrets", "env")  # of what a copy leaves out, needed to ask one's own model
_PATH = compile_late(r" - at `([^`]+)`")


class ScenarioTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message and what is expected of its turn."""

    say: str
    expect: list[TurnCheck] = []
    session: str = ""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file, as it is written."""

    turns: list[ScenarioTurn] = []
    name: str = ""
    agent: Literal["new", "mine"] = "new"  # mine: a copy of the owner's configuration and workspace
    model: str = ""
    script: list[str | ScriptLine] | None = None
    cassette: str = ""
    runs: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    pass_rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    timeout: Annotated[float, msgspec.Meta(gt=0)] = LIMIT
    instructions: str = ""
    tools: list[str] = []  # FILE.py:FUNCTION
    plugins: list[str] = []
    config: dict[str, Any] = {}
    workspace: str = ""
    files: dict[str, str] = {}
    approve: bool = False
    forbid: list[str] = []
    allow: list[str] = []
    secrets: list[str] = []
    expect: list[TurnCheck] = []  # of all turns together


class ScenarioCase(msgspec.Struct, frozen=True):
    """What is run. `play` is a function of Python; None: the turns of `scenario`."""

    file: str
    line: int
    scenario: Scenario
    options: AgentOptions
    play: Callable[[AgentUnderTest], Any] | None = None
    functions: Mapping[str, Callable[..., Any]] = {}  # of the `python` checks

    @property
    def name(self) -> str:
        return self.scenario.name


class ScenarioMistake(msgspec.Struct, frozen=True):
    """What is wrong with a file, and what to do."""

    file: str
    line: int
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" + (f"\n  fix: {self.fix}" if self.fix else "")


class _Mistake(Exception):
    """At a path of the file."""

    def __init__(self, path: str, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.path, self.message, self.fix = path, message, fix


def read_folder(where: str, word: str = "") -> tuple[list[ScenarioCase], list[ScenarioMistake]]:
    """All scenarios below a folder, or of one file, whose file or name holds `word`. Raises BadRequest."""
    if not os.path.exists(where):
        raise BadRequest(
            f"there is no file or folder {str(where)!r}",
            fix="`pal test FOLDER`; docs/testing.md shows a first scenario",
        )
    files = [where]
    if os.path.isdir(where):
        patterns = ("*.yaml", "*.yml", f"{PREFIX}*.py")
        files = sorted(f for p in patterns for f in glob.glob(os.path.join(where, "**", p), recursive=True))
    cases: list[ScenarioCase] = []
    wrong: list[ScenarioMistake] = []
    for file in files:
        try:
            found = list(_read_python(file)) if file.endswith(".py") else [_read_yaml(file)]
        except BadScenario as error:
            wrong.append(error.mistake)
            continue
        cases += [case for case in found if word in case.name or word in os.path.basename(file)]
    if not files:
        raise BadRequest(f"no scenario in {where}", fix=f"write one: NAME.yaml or {PREFIX}NAME.py (docs/testing.md)")
    if not cases and not wrong:
        raise BadRequest(f"no scenario's file or name holds {word!r}", fix="leave -k out to play all")
    return cases, wrong


class BadScenario(Exception):
    """A file that cannot be used."""

    def __init__(self, mistake: ScenarioMistake) -> None:
        super().__init__(str(mistake))
        self.mistake = mistake


# --- YAML


def _read_yaml(file: str) -> ScenarioCase:
    """Raises BadScenario."""
    try:
        with open(file, encoding="utf-8") as handle:
            text = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(ScenarioMistake(file, 1, f"cannot be read: {error}")) from None
    read = parse_yaml(text)
    if isinstance(read, BadFrontMatter):
        raise BadScenario(ScenarioMistake(file, read.line, read.message))
    try:
        return _make_case(file, _convert(read.fields))
    except _Mistake as error:
        line = _find_line(read.places, error.path)
        raise BadScenario(ScenarioMistake(file, line, error.message, error.fix)) from None


def _find_line(places: Mapping[str, int], path: str) -> int:
    """Of the path, or of what holds it."""
    while path not in places and path != "$":
        path = re.sub(r"(\.[^.\[\]]*|\[[^\]]*\])$", "", path) or "$"
    return places.get(path, 1)


def _convert(fields: dict[str, Any]) -> Scenario:
    """Raises _Mistake."""
    try:
        return msgspec.convert(fields, Scenario)
    except msgspec.ValidationError as error:
        told = str(error)
        found = _PATH.search(told)
        path, told = (found[1] if found else "$"), _PATH.sub("", told)
        unknown = re.search(r"unknown field `([^`]+)`", told)
        if unknown:
            names = _list_names(path)
            near = difflib.get_close_matches(unknown[1], names, 1)
            fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(names))}"
            raise _Mistake(f"{path}.{unknown[1]}", f"there is no {unknown[1]!r} here", fix) from None
        missing = re.search(r"missing required field `([^`]+)`", told)
        if missing:
            raise _Mistake(path, f"{missing[1]} is missing", f"write `{missing[1]}: …`") from None
        plain = re.search(r"Expected `[^`]*str[^`]*`, got `(int|float|bool|null)`", told)
        fix = "put the text in quotes" if plain else ""
        raise _Mistake(path, told.replace("`", ""), fix) from None


def _list_names(path: str) -> list[str]:
    """What may stand at a path."""
    kinds: tuple[tuple[str, type[msgspec.Struct]], ...] = (
        (r"\.expect\[\d+\]$", TurnCheck),
        (r"\.turns\[\d+\]$", ScenarioTurn),
        (r"\.(script|also)\[\d+\]$", ScriptLine),
    )
    kind = next((one for pattern, one in kinds if re.search(pattern, path)), Scenario)
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def _make_case(file: str, told: Scenario) -> ScenarioCase:
    """With everything that a scenario names looked up. Raises _Mistake."""
    folder = os.path.dirname(os.path.abspath(file))
    if not told.turns:
        raise _Mistake("$.turns", "nothing is said to the agent", "add `turns:`, and below it `- say: …`")
    if told.script is not None and (told.model or told.cassette):
        raise _Mistake("$.script", "a script answers instead of a model", "leave out model and cassette")
    functions: dict[str, Callable[..., Any]] = {}
    turns = []
    for at, turn in enumerate(told.turns):
        checks = [_check(one, f"$.turns[{at}].expect[{n}]", folder, functions) for n, one in enumerate(turn.expect)]
        turns.append(msgspec.structs.replace(turn, expect=checks))
    ends = [_check(one, f"$.expect[{n}]", folder, functions) for n, one in enumerate(told.expect)]
    own = [_load_function(name, folder, f"$.tools[{n}]") for n, name in enumerate(told.tools)]
    known = {*SINKS, *BUILTIN_TOOLS, *(name.rpartition(":")[2] for name in told.tools)}
    for key in ("forbid", "allow"):
        for n, name in enumerate(getattr(told, key)):
            if name not in known and "__" not in name:
                near = difflib.get_close_matches(name, known, 1)
                fix = f"did you mean {near[0]}?" if near else f"a tool, or one of {', '.join(SINKS)}"
                raise _Mistake(f"$.{key}[{n}]", f"{name!r} is no tool and no kind of sink", fix)
    workspace = os.path.join(folder, told.workspace) if told.workspace else ""
    if workspace and not os.path.isdir(workspace):
        raise _Mistake("$.workspace", f"there is no folder {told.workspace}")
    name = told.name or os.path.splitext(os.path.basename(file))[0]
    made = msgspec.structs.replace(told, name=name, turns=turns, expect=ends)
    options = AgentOptions(
        model=told.model or DEMO,
        script=told.script,
        instructions=told.instructions,
        tools=own,
        plugins=[os.path.join(folder, one) for one in told.plugins],
        config=told.config,
        files=told.files,
        workspace=workspace,
        approve=told.approve,
        timeout=told.timeout,
    )
    if told.agent == "mine":
        options = copy_owner(options, keep_model=not told.model and told.script is None)
    return ScenarioCase(file, 1, made, options, functions=functions)


def _check(check: TurnCheck, path: str, folder: str, functions: dict[str, Callable[..., Any]]) -> TurnCheck:
    """Raises _Mistake."""
    named = msgspec.to_builtins(check)
    kinds = {*GRADERS, "python", "judge"}
    if not kinds & set(named):
        raise _Mistake(path, "this checks nothing", f"write one of {', '.join(sorted(kinds))}")
    for word, host in WITH.items():
        written = {"args": "with"}.get(word, word)
        if written in named and host not in named:
            raise _Mistake(f"{path}.{written}", f"{written} says more about {host}, and there is none here")
    if check.judge is not None and not check.model:
        raise _Mistake(f"{path}.judge", "who judges?", "add `model: PROVIDER/MODEL`; its answers cost money")
    if check.regex is not None:
        try:
            re.compile(check.regex)
        except re.error as error:
            raise _Mistake(f"{path}.regex", f"not a regular expression: {error}") from None
    if check.python is not None:
        functions[check.python] = _load_function(check.python, folder, f"{path}.python")
    if check.schema is None:
        return check
    schema = _load_json(check.schema, folder, path) if isinstance(check.schema, str) else check.schema
    if odd := list_unsupported(schema):
        raise _Mistake(f"{path}.schema", odd[0])
    return msgspec.structs.replace(check, schema=schema)


def _load_json(name: str, folder: str, path: str) -> Any:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return msgspec.json.decode(file.read())
    except (OSError, msgspec.DecodeError) as error:
        raise _Mistake(f"{path}.schema", f"{name}: {error}", "name a file that holds a JSON schema") from None


def _load_function(spec: str, folder: str, path: str) -> Callable[..., Any]:
    name, _, attribute = spec.partition(":")
    if not attribute:
        raise _Mistake(path, f"{spec!r} names no function", "write FILE.py:FUNCTION")
    try:
        found = getattr(_load_module(os.path.join(folder, name)), attribute, None)
    except BadScenario as error:
        raise _Mistake(path, str(error.mistake)) from None
    if not callable(found) and not hasattr(found, "name"):
        raise _Mistake(path, f"{name} has no function {attribute}")
    made: Callable[..., Any] = found
    return made


def copy_owner(options: AgentOptions, *, keep_model: bool) -> AgentOptions:
    """With the owner's configuration, less what would reach the world, and a copy of the workspace."""
    home = find_home(os.environ)
    try:
        with open(locate_config_file(home), encoding="utf-8") as handle:
            found = decode_json5(handle.read())
    except FileNotFoundError:
        found = {}
    raw = found if isinstance(found, dict) else {}
    left_out = {"gateway", "$include", *OUTWARD} - set(_KEYS)
    kept = {name: value for name, value in raw.items() if name not in left_out}
    defaults = {**(kept.get("agents") or {}).get("defaults", {})}
    workspace = os.path.expanduser(str(defaults.pop("workspace", "") or os.path.join(home, "workspace")))
    kept["agents"] = {**(kept.get("agents") or {}), "defaults": defaults}
    return msgspec.structs.replace(
        options,
        model="" if keep_model else options.model,
        config=overlay_config(kept, options.config),
        workspace=options.workspace or (workspace if os.path.isdir(workspace) else ""),
    )


# --- Python


def scenario(**options: Any) -> Callable[[Callable[[AgentUnderTest], Any]], Callable[[AgentUnderTest], Any]]:
    """What agent a function of a scenario_*.py file gets, and how often: keys of AgentOptions, and `runs`, `pass_rate`,
    `cassette`, `name`."""

    def mark(function: Callable[[AgentUnderTest], Any]) -> Callable[[AgentUnderTest], Any]:
        function.__dict__["palinurus_scenario"] = options
        return function

    return mark


def _read_python(file: str) -> Iterator[ScenarioCase]:
    """Raises BadScenario."""
    module = _load_module(file)
    for name, function in vars(module).items():
        told = getattr(function, "palinurus_scenario", None)
        if not callable(function) or function.__module__ != module.__name__:
            continue
        if told is None and not name.startswith(PREFIX):
            continue
        line = function.__code__.co_firstlineno
        own = dict(told or {})
        shared = {key: own.pop(key) for key in ("runs", "pass_rate", "cassette", "name") if key in own}
        try:
            options = msgspec.convert(own, AgentOptions)
            words = {"name": name.removeprefix(PREFIX).replace("_", " "), **shared}
            made = msgspec.convert(words, Scenario)
        except msgspec.ValidationError as error:
            known = sorted({*AgentOptions.__struct_fields__, "runs", "pass_rate", "cassette", "name"})
            raise BadScenario(ScenarioMistake(file, line, str(error), f"known: {', '.join(known)}")) from None
        yield ScenarioCase(file, line, made, options, play=function)


def _load_module(file: str) -> ModuleType:
    """A file of the tests, as a module of its own. Raises BadScenario."""
    name = "palinurus_scenario_" + re.sub(r"\W", "_", os.path.abspath(file))
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not os.path.isfile(file):
        raise BadScenario(ScenarioMistake(file, 1, "there is no such Python file"))
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))  # its neighbours can be imported, as with pytest
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  the border to the tests' own code
        del sys.modules[name]
        raise BadScenario(
            ScenarioMistake(file, find_own_line(error, file), f"{type(error).__name__}: {error}")
        ) from None
    finally:
        sys.path.pop(0)
    return module


def find_own_line(error: BaseException, file: str) -> int:
    """The last line of the file that an error came through."""
    line, trace = getattr(error, "lineno", None) or 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
