"""Every place of the config that says who may use which tool -> `Rules`, each list with its key path.

Also where such a key stands (file and line), which is looked up only when somebody asks. What the layers mean is
not known here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from palinurus.config import files, lines, paths
from palinurus.config.declare import fill_section
from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.forms import merge_raw
from palinurus.config.keypath import Path, get_at, parse_path, show_path
from palinurus.config.kinds import make_kind
from palinurus.config.schema import Config
from palinurus.config.sections.agents import AgentLayers
from palinurus.config.sections.tools import AgentToolsSection, ExecWords, ToolPolicySection, ToolProfileSection
from palinurus.config.settings import Settings
from palinurus.core.policy.groups import MCP_ORIGIN, is_known_word, names_builtin, suggest_word
from palinurus.core.policy.layers import ChatPlace, ChatToolRules, PatchToolRules, ToolLists, ToolRules, ToolScope
from palinurus.core.types.keys import escape_key_part

DEPTH = 1  # how deep sub-agents go when nobody says
_CHATS = ("groups", "channels", "rooms")  # below a channel, an account, a guild or a team
_AROUND = ("guilds", "teams")


class ToolPolicyReader:
    """Collects the lists of one config; what is odd about them is added to `findings`."""

    def __init__(
        self,
        config: Config,
        agents: Mapping[str, AgentLayers],
        tools: Mapping[str, AgentToolsSection],
        here: ConfigPlace,
    ) -> None:
        self._config = config
        self._agents = agents
        self._tools = tools
        self._findings = here.findings
        self._others = frozenset(name.lower() for name in (*config.plugins.entries, *config.mcp.named))

    def rules(self) -> ToolRules:
        """All of it."""
        tools, words = self._config.tools, self._config.tools.exec.words
        written = {name: layers for name, layers in self._agents.items() if layers.own.get("tools") is not None}
        return ToolRules(
            shared=self._scope(tools, ("tools",)),
            agents={name: self._scope(self._tools[name], (*one.path, "tools")) for name, one in written.items()},
            chats=dict(self._chats()),
            subagents=self._lists(tools.subagents, ("tools", "subagents", "tools")),
            patch=PatchToolRules(words.patch, words.patch_models),
            patches=dict(self._patches()),
            deepest={n: one.merge("subagents").get("maxSpawnDepth") or DEPTH for n, one in self._agents.items()},
            narrowed=dict(self._narrowed()),
        )

    def _patches(self) -> Iterator[tuple[str, PatchToolRules]]:
        for name, (own, _, path) in self._agents.items():
            if told := get_at(own, ("tools", "exec", "applyPatch")):
                shared = get_at(self._config.section("tools"), ("exec", "applyPatch"))
                made = fill_section(ExecWords, {"applyPatch": merge_raw(told, shared)}, ConfigPlace("", {}, []))
                key = show_path((*path, "tools", "exec", "applyPatch"))
                yield name, PatchToolRules(made.patch, made.patch_models, key)

    def _scope(self, section: AgentToolsSection, path: Path) -> ToolScope:
        return ToolScope(
            own=self._lists(section, path),
            providers={key: self._lists(body, (*path, "byProvider", key)) for key, body in section.by_provider.items()},
            senders=self._senders(section.tools_by_sender, (*path, "toolsBySender")),
            sandbox=self._lists(section.sandbox, (*path, "sandbox", "tools")) if section.sandbox else None,
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
            section.allow,
            section.also,
            section.deny,
            profile=(section.profile or "") if isinstance(section, ToolProfileSection) else "",
        )
        if made.allow and made.also:
            beside = f"cannot stand beside {made.key}.allow"
            self._findings.append(ConfigFinding((*path, "alsoAllow"), beside, "move its names into allow"))
            made = msgspec.structs.replace(made, also=())
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
        usual = self._config.channels.get("defaults") or {}
        for name, body in self._config.channels.items():
            if name == "defaults":
                continue
            rest = {word: below for word, below in usual.items() if word not in body}
            yield from self._around(rest, ("channels", "defaults"), ChatPlace(name))
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
        lists = self._lists(_policy(own), (*path, "tools")) if isinstance(own, dict) else None
        rules = {key: _policy(below) for key, below in _maps(by)}
        return ChatToolRules(lists, self._senders(rules, (*path, "toolsBySender")))

    def _narrowed(self) -> Iterator[tuple[str, str]]:
        """Models that the config gives only some tools."""
        for name, body in self._config.models.providers.items():
            for index, model in enumerate(body.models):
                if "toolNames" in model.compat:
                    path: Path = ("models", "providers", name, "models", index, "compat", "toolNames")
                    yield f"{name}/{model.id}", show_path(path)


def _policy(body: Mapping[str, Any]) -> ToolPolicySection:
    """What cannot be read is closed by now, but for places that no section declares."""
    kind = make_kind(ToolPolicySection)
    return fill_section(ToolPolicySection, body if kind.fits(body) else kind.close(), ConfigPlace("", {}, []))


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


def _maps(section: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries that are objects themselves."""
    for key, body in section.items() if isinstance(section, dict) else ():
        if isinstance(body, dict):
            yield str(key), body
