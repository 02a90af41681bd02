"""Every key has a fate: somebody acts on it, or it is said that nobody does."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import palinurus
from config_report import judge_all, judge_declared
from palinurus.channels import CHANNELS
from palinurus.config.declare import Section, list_declared, list_fields
from palinurus.config.edit import put_value
from palinurus.config.inert import ACTION_WORDS, find_reason, list_inert
from palinurus.config.load import judge_config, load_config
from palinurus.config.sections.channels import ChannelSection
from palinurus.config.settings import Settings
from palinurus.core.channelneeds import OWN_KEYS
from palinurus.tools.program.message import ACTION_GROUPS
from sources import Source, sources

ACTING = 724  # of the keys that OpenClaw documents; only larger numbers are put here
SOURCE = Path(palinurus.__file__).parent


def test_every_documented_key_acts_or_is_said_not_to() -> None:
    fates = judge_all()
    assert [key for key, fate in fates.items() if fate == "unknown"] == []
    assert len(fates) == 957 and Counter(fates.values())["acts"] >= ACTING
    page = SOURCE.parents[1] / "docs" / "differences.md"
    assert f"Of its {len(fates)} documented keys {ACTING} act here" in page.read_text(encoding="utf-8")


def test_every_declared_key_changes_the_settings_or_is_said_not_to() -> None:
    fates = judge_declared()
    assert len(fates) > 700 and [key for key, fate in fates.items() if fate == "unknown"] == []


def test_every_channel_that_there_is_is_acted_on() -> None:
    """Feishu was on the list of what is not there after it was built: its accounts were never opened."""
    for name in CHANNELS:
        found = judge_config(json.dumps({"channels": {name: {"enabled": True}}}), "f", "/s", {}).inert
        assert not [problem.message for problem in found if problem.path == f"channels.{name}"], name


def test_inert_keys_are_found_wherever_they_may_stand() -> None:
    for key in list_inert():
        path = tuple(0 if part == "[]" else "defaults" if part == "*" else part for part in key.split("."))
        assert find_reason(path) and find_reason((*path, "below"))
    assert find_reason(("agents", "list", 3, "cwd")) == find_reason(("agents", "entries", "a", "cwd")) == "not built"
    assert find_reason(("agents", "list", 3, "tools", "codeMode")) == "not built"
    assert find_reason(("channels", "discord", "accounts", "a", "network", "autoSelectFamily"))
    assert not find_reason(("agents", "defaults")) and not find_reason(())


def test_the_load_tells_of_them_once_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "palinurus.json").write_text(
        "{\n crestodian: {provider: 'x', voiceId: 'y'},\n channels: {discord: {\n  actions: {stickers: true}}}}"
    )
    loaded = load_config(str(tmp_path), {})
    assert [(problem.path, problem.line, problem.fatal) for problem in loaded.problems] == [
        ("crestodian", 2, False),
        ("channels.discord.actions.stickers", 4, False),
    ]
    assert all("is known, but not acted on: " in problem.message for problem in loaded.problems)
    assert loaded.settings.channels["discord"] == {"actions": {}}


def test_a_variable_below_an_inert_key_is_not_missed() -> None:
    found = judge_config("{crestodian: {apiKey: '${NOT_SET_HERE}'}}", "f", "/h", {})
    assert [problem.path for problem in found.inert] == ["crestodian"]


def list_structs(form: Any, seen: set[type]) -> Iterator[type[msgspec.Struct]]:
    """The records that settings are made of."""
    if isinstance(form, type) and issubclass(form, msgspec.Struct):
        if form not in seen:
            seen.add(form)
            yield form
            for below in msgspec.structs.fields(form):
                yield from list_structs(below.type, seen)
        return
    for below in get_args(form):
        yield from list_structs(below, seen)


# Where a file reads a setting without naming its section: "section.field" -> the file.
READ_AT = {
    "ProviderSignInSettings.poll_url": "core/signin/flow.py",  # by way of its row of facts
    "ProviderSignInSettings.verify_url": "core/signin/flow.py",  # by way of its row of facts
    "ProviderSignInSettings.revoke_url": "core/signin/flow.py",  # by way of its row of facts
    "ProviderSignInSettings.scope": "core/signin/flow.py",  # by way of its row of facts
    "BlockSection.prefer": "core/stream/chunk.py",  # laid over the settings of blocks
    "VoiceSettings.cwd": "providers/speech/maker.py",
    "CompactionSettings.notify": "agent/compaction/compactor.py",
    "CompactionSettings.max_bytes": "agent/compaction/compactor.py",
    "CompactionSettings.mid_turn": "agent/compaction/compactor.py",
    "ProcessSettings.yield_ms": "tools/commands/exec.py",
    "ProviderSettings.auth_header": "providers/stream.py",
    "AccountSettings.writes": "inbox/commands/config.py",
}


NAMED: dict[type[ast.AST], str] = {ast.Name: "id", ast.arg: "arg", ast.ClassDef: "name"}


def list_words(file: Source) -> tuple[set[str], set[str]]:
    """The attributes that a file asks for, and every name that it uses or gives."""
    asked = {node.attr for node in file.nodes(ast.Attribute)}
    found = {getattr(node, field) for kind, field in NAMED.items() for node in file.nodes(kind)}
    found |= {one.name for node in file.nodes(ast.ImportFrom) for one in node.names}
    return asked, found | asked


def list_inner(form: Any) -> Iterator[type]:
    """The records that stand directly in a field."""
    if isinstance(form, type) and issubclass(form, msgspec.Struct):
        yield form
        return
    for below in get_args(form):
        yield from list_inner(below)


def find_unread() -> list[str]:
    """Keys of the settings that no file reads. A file reads one if it asks for the field and knows the section: by its
    class, or by the field that the section stands in; a namesake in another section is no reader."""
    forms = list(list_structs(Settings, set()))
    places: dict[type, set[str]] = {}
    for form in forms:
        for field in msgspec.structs.fields(form):
            for inner in list_inner(field.type):
                places.setdefault(inner, set()).add(field.name)
    readers: dict[str, list[str]] = {}  # an attribute -> the files that ask for it
    words: dict[str, set[str]] = {}
    for file in sources():
        asked, words[file.name] = list_words(file)
        for word in asked:
            readers.setdefault(word, []).append(file.name)
    unread = []
    for form in forms:
        if not issubclass(form, Section):
            continue
        known = places.get(form, set()) | {one.__name__ for one in form.__mro__[: form.__mro__.index(Section)]}
        for key in list_fields(form):
            name = f"{form.__name__}.{key.field}"
            told = READ_AT.get(name, "")
            if not any(file == told if told else known & words[file] for file in readers.get(key.field, ())):
                unread.append(name)
    return unread


def test_every_setting_is_read_by_the_program() -> None:
    assert not find_unread()


# One slip in each section that forgives them: nothing is accepted in silence.
SLIPS: dict[str, Any] = {
    "channels.telegram.alowFrom": ["1"],
    "channels.telegram.accounts.a.botTokn": "x",
    "channels.telegram.accounts.a.dmHistoryLimit": 3,
    "channels.telegram.groups.-1.requireMenton": False,
    "channels.telegram.groups.-1.topics.7.systemPromt": "x",
    "channels.discord.guilds.1.channels.2.usrs": ["1"],
    "channels.telegram.actions.deleteMesage": False,
    "channels.telegram.retry.attemps": 3,
    "channels.telegram.execApprovals.aprovers": ["1"],
    "channels.telegram.dm.polcy": "open",
    "channels.telegram.mediaMaxMb": "lots",
    "channels.irc.bogus": 1,
    "channels.defaults.heartbeat.showOK": True,
    "web.reconnect.initalMs": 3,
    "plugins.entries.a.enabld": False,
    "skills.entries.a.enabld": False,
    "diagnostics.otel.captureContent.enabled": "no",
    "tools.media.audio.scope.defalt": "deny",
    "hooks.gmail.lable": "x",
    "mcp.servers.a.toolFiltr": {},
    "agents.defaults.contextLimits.memoryGetMxChars": 100,
    "agents.defaults.humanDelay.mode": "natrual",
    "agents.defaults.blockStreamingChunk.minChars": "few",
}


@pytest.mark.parametrize("key", SLIPS)
def test_a_slip_is_told_with_its_line_and_costs_only_itself(key: str) -> None:
    raw = put_value({}, tuple(key.split(".")), SLIPS[key])
    found = judge_config(json.dumps(raw, indent=1), "f", "/s", {})
    told = [problem for problem in found.problems if problem.path == key]
    assert found.settings is not None and [(one.fatal, one.line > 1) for one in told] == [(False, True)]


def list_read_keys(folder: Path) -> set[str]:
    """The keys of its own section that a channel asks its kit for."""
    read = {"text", "texts", "flag", "secret", "secret_or_file", "address", "number", "section"}
    found: set[str] = set()
    for file in folder.rglob("*.py") if folder.is_dir() else [folder]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            holder, name = ast.unparse(node.func.value).split(".")[-1].lstrip("_"), node.func.attr
            taken = node.args if name == "secret_or_file" else node.args[:1]
            if (holder == "kit" and name in read) or (holder == "own" and name == "get"):
                found |= {one.value for one in taken if isinstance(one, ast.Constant)}
    return found


SERVERS = {"imap", "smtp", "imapHost", "smtpHost"}  # of e-mail: two sections with the same keys, read by one function
SERVER_KEYS = {"host", "port", "tls", "tlsCaFile", "username"}


PUBLIC = "publicWebhookUrl"  # of channels with a webhook: read in channels/web/hook.py


def test_a_section_of_a_channel_knows_what_the_channel_reads() -> None:
    assert set(OWN_KEYS) == set(CHANNELS)
    assert {word for words in ACTION_GROUPS.values() for word in words} == ACTION_WORDS
    shared = set(list_declared(ChannelSection).keys)
    for name in CHANNELS:
        folder = SOURCE / "channels" / name.replace("-", "")
        read = list_read_keys(folder if folder.is_dir() else folder.with_suffix(".py")) - shared
        own = {key for keys in OWN_KEYS[name].values() for key in keys.split()} - shared - {PUBLIC}
        assert own == ((read - SERVER_KEYS) | SERVERS if name == "email" else read - {PUBLIC}), name
