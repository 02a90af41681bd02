"""Every place of the config that says who may use which tool -> `Rules`, each list with its key path.

Also where such a key stands (file and line), which is looked up only when somebody asks. What the layers mean is
not known here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from palinurus.config import files, lines, paths
from palinurus.config.findings import ConfigFinding
from palinurus.config.keypath import Path, parse_path, show_path
from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry, AgentsSection, SharedAgentSection
from palinurus.config.schema.tools import (
    ApplyPatchSection,
    ExecSection,
    SharedToolsSection,
    ToolPolicySection,
    ToolProfileSection,
    ToolsSection,
)
from palinurus.config.settings import Settings
from palinurus.core.policy.groups import MCP_ORIGIN, is_known_word, names_builtin, suggest_word
from palinurus.core.policy.layers import ChatPlace, ChatToolRules, PatchToolRules, ToolLists, ToolRules, ToolScope
from palinurus.core.types.keys import escape_key_part, parse_agent_id

DEPTH = 1  # how deep sub-agents go when nobody says
_CHATS = ("groups", "channels", "rooms")  # below a channel, an account, a guild or a team
_AROUND = ("guilds", "teams")


class ToolPolicyReader:
    """Collects the lists of one config; what is odd about them is added to `findings`."""

    def __init__(self, config: Config, findings: list[ConfigFinding]) -> None:
        self._config = config
        self._findings = findings
        self._others = frozenset(name.lower() for name in (*config.plugins.entries, *config.mcp.named))

    def rules(self, agents: Collection[str]) -> ToolRules:
        """All of it."""
        tools = self._config.tools or ToolsSection()
        patch = (tools.exec or ExecSection()).apply_patch or ApplyPatchSection()
        written = dict(self._written())
        holder = tools.subagents.tools if tools.subagents else None
        return ToolRules(
            shared=self._scope(tools, ("tools",)),
            agents={key: self._scope(e.tools, (*path, "tools")) for key, (path, e) in written.items() if e.tools},
            chats=dict(self._chats()),
            subagents=self._lists(holder, ("tools", "subagents", "tools")),
            patch=PatchToolRules(patch.enabled is not False, _words(patch.allow_models)),
            deepest={key: self._depth(written[key][1] if key in written else None) for key in agents},
            narrowed=dict(self._narrowed()),
        )

    def _written(self) -> Iterator[tuple[str, tuple[Path, AgentEntry]]]:
        section = self._config.agents or AgentsSection()
        for index, entry in enumerate(section.listed or ()):
            yield parse_agent_id(entry.id or "") or "", (("agents", "list", index), entry)
        for name, entry in (section.entries or {}).items():
            yield parse_agent_id(name) or "", (("agents", "entries", name), entry)

    def _scope(self, section: SharedToolsSection | None, path: Path) -> ToolScope:
        section = section or SharedToolsSection()
        sandbox = section.sandbox.tools if section.sandbox else None
        return ToolScope(
            own=self._lists(section, path),
            providers={
                key: self._lists(body, (*path, "byProvider", key)) for key, body in (section.by_provider or {}).items()
            },
            senders=self._senders(section.tools_by_sender or {}, (*path, "toolsBySender")),
            sandbox=self._lists(sandbox, (*path, "sandbox", "tools")) if sandbox else None,
        )

    def _senders(self, section: Mapping[str, ToolPolicySection], path: Path) -> dict[str, ToolLists]:
        for key in section:
            if key.strip().lower().startswith(("name:", "username:")):
                text = "people choose their names: this rule can take tools away, but gives none"
                self._findings.append(ConfigFinding((*path, key), text, "use id:", fatal=False))
        return {key: self._lists(body, (*path, key)) for key, body in section.items()}

    def _lists(self, section: ToolPolicySection | None, path: Path) -> ToolLists:
        section = section or ToolPolicySection()
        made = ToolLists(
            show_path(path),
            _words(section.allow),
            _words(section.also_allow) or (),
            _words(section.deny) or (),
            (section.profile or "") if isinstance(section, ToolProfileSection) else "",
        )
        if made.allow and made.also:
            beside = f"cannot stand beside {made.key}.allow"
            self._findings.append(ConfigFinding((*path, "alsoAllow"), beside, "move its names into allow"))
        for name, words in (("allow", made.allow or ()), ("alsoAllow", made.also), ("deny", made.deny)):
            self._names(words, (*path, name))
        return made

    def _names(self, words: tuple[str, ...], path: Path) -> None:
        """Names that stand for nothing; an allow list of only such names."""
        strange = [(at, word) for at, word in enumerate(words) if not self._known(word)]
        for at, word in strange:
            near = suggest_word(word)
            hint = f"did you mean {near!r}?" if near else "`pal policy list` shows the tools there are"
            self._findings.append(ConfigFinding((*path, at), f"there is no tool {word[:60]!r}", hint, fatal=False))
        if words and path[-1] == "allow" and not any(names_builtin(word) for word in words):
            text = "names none of the built-in tools: it is passed over, and takes none of them away"
            self._findings.append(ConfigFinding(path, text, "to allow no tool at all write []", fatal=False))

    def _known(self, word: str) -> bool:
        plain = word.strip().lower()
        return is_known_word(word) or any(
            plain == other or plain.startswith((f"{other}_", MCP_ORIGIN)) for other in self._others
        )

    # chats

    def _chats(self) -> Iterator[tuple[ChatPlace, ChatToolRules]]:
        for name, body in (self._config.channels or {}).items():
            if name == "defaults":
                continue
            yield from self._around(body, ("channels", name), ChatPlace(name))
            for account, below in _maps(body.get("accounts")):
                path: Path = ("channels", name, "accounts", account)
                yield from self._around(below, path, ChatPlace(name, account))

    def _around(
        self, body: Mapping[str, Any], path: Path, place: ChatPlace
    ) -> Iterator[tuple[ChatPlace, ChatToolRules]]:
        for word in _CHATS:
            yield from self._rooms(body.get(word), (*path, word), place)
        yield from self._rooms(body.get("direct"), (*path, "direct"), place._replace(direct=True))
        for word in _AROUND:
            for guild, below in _maps(body.get(word)):
                inside = place._replace(guild="" if guild == "*" else guild)
                here: Path = (*path, word, guild)
                for rooms in _CHATS:
                    yield from self._rooms(below.get(rooms), (*here, rooms), inside)
                if (chat := self._chat(below, here)) is not None and "*" not in (below.get("channels") or {}):
                    yield inside, chat

    def _rooms(self, section: Any, path: Path, place: ChatPlace) -> Iterator[tuple[ChatPlace, ChatToolRules]]:
        for ident, body in _maps(section):
            if (chat := self._chat(body, (*path, ident))) is not None:
                names = (
                    (ident.lower(), escape_key_part(ident).lower()) if ident != "*" else ("*",)
                )  # as session keys write it, too
                for name in dict.fromkeys(names):
                    yield place._replace(chat=name), chat

    def _chat(self, body: Mapping[str, Any], path: Path) -> ChatToolRules | None:
        own, by = body.get("tools"), body.get("toolsBySender")
        if not isinstance(own, dict) and not isinstance(by, dict):
            return None
        lists = self._lists(self._policy(own, (*path, "tools")), (*path, "tools")) if isinstance(own, dict) else None
        rules = {key: self._policy(below, (*path, "toolsBySender", key)) for key, below in _maps(by)}
        return ChatToolRules(lists, self._senders(rules, (*path, "toolsBySender")))

    def _policy(self, body: Mapping[str, Any], path: Path) -> ToolPolicySection:
        """Channel sections are free-form: what is not a list of texts here would silently allow everything."""
        made: dict[str, list[str] | None] = {}
        for key in ("allow", "alsoAllow", "deny"):
            value = body.get(key)
            good = isinstance(value, list) and all(isinstance(word, str) for word in value)
            if value is not None and not good:
                self._findings.append(ConfigFinding((*path, key), "expected a list of texts", "put it in [ ]"))
            made[key] = value if good else None
        return ToolPolicySection(made["allow"], made["alsoAllow"], made["deny"])

    # agents

    def _defaults(self) -> AgentDefaults:
        return (self._config.agents.defaults if self._config.agents else None) or AgentDefaults()

    def _depth(self, entry: AgentEntry | None) -> int:
        found = (s.subagents.max_spawn_depth for s in self._said(entry) if s.subagents)
        return next((depth for depth in found if depth), DEPTH)

    def _said(self, entry: AgentEntry | None) -> tuple[SharedAgentSection, ...]:
        return (entry, self._defaults()) if entry is not None else (self._defaults(),)

    def _narrowed(self) -> Iterator[tuple[str, str]]:
        """Models that the config gives only some tools."""
        for name, body in self._config.models.providers.items():
            for index, model in enumerate(body.models):
                if "toolNames" in model.compat:
                    path: Path = ("models", "providers", name, "models", index, "compat", "toolNames")
                    yield f"{name}/{model.id}", show_path(path)


def resolve_policy(config: Config, agents: Collection[str], findings: list[ConfigFinding]) -> ToolRules:
    """The rules; what is odd is added to `findings`."""
    return ToolPolicyReader(config, findings).rules(agents)


def find_key_source(settings: Settings, key: str) -> str:
    """`file:line` of a key path in the file that these settings came from; "" where it is not written there."""
    if not key:
        return ""
    file = paths.locate_config_file(settings.home)
    for name in (file, paths.locate_last_good(file)):
        data = files.read_file(name)
        text = files.decode_text(data) if isinstance(data, bytes) else None
        if isinstance(text, str) and hashlib.sha256(text.encode()).hexdigest()[:12] == settings.version:
            scan, path = lines.scan_json(text), parse_path(key)
            return f"{name}:{scan.line(path)}" if path in scan.nodes else ""
    return ""


def _words(section: list[str] | None) -> tuple[str, ...] | None:
    return None if section is None else tuple(section)


def _maps(section: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries that are objects themselves."""
    for key, body in section.items() if isinstance(section, dict) else ():
        if isinstance(body, dict):
            yield str(key), body
