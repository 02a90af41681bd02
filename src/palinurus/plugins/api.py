"""What a plugin is handed: `register(api)` says through it what the plugin brings.

Nothing takes effect before `register` has returned: a plugin that fails half way brings nothing. What it did not
declare in its manifest it cannot register.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from palinurus.config.sections.plugins import PluginEntry
from palinurus.core.levels.spellings import parse_thinking
from palinurus.core.levels.thinking import ThinkingRow, adapt_plugin_profile
from palinurus.core.types.channel import Channel
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.tool import Tool
from palinurus.core.types.vendor import Vendor
from palinurus.patterns import compile_late
from palinurus.plugins.function import HookFunction, make_async_handler, tool
from palinurus.plugins.hooks import HOOK_POINTS, PROMPT_FIELDS, Hooks
from palinurus.plugins.manifest import PluginManifest
from palinurus.plugins.peer import PluginPrompt, PluginResource

_COMMAND = compile_late(r"[a-z][a-z0-9_-]{0,31}")


ThinkingOpinion: TypeAlias = Callable[[ModelSpec], bool | None] | None


class PluginRegistrationError(Exception):
    """A plugin registers what its manifest does not declare, or what cannot be."""


class PluginCommandCall(msgspec.Struct, frozen=True):
    """A command as a person typed it."""

    name: str
    args: str
    session: str  # key
    agent: str
    sender: str
    channel: str
    owner: bool


class PluginCommand(msgspec.Struct, frozen=True):
    """A chat command of a plugin: `run(asked)` returns the answer, or a promise of it."""

    name: str
    help: str
    run: Callable[[PluginCommandCall], str | Awaitable[str]]
    usage: str = ""
    owner: bool = False  # for the owner only
    plugin: str = ""


class HookRegistration(msgspec.Struct, frozen=True):
    point: str
    call: Callable[[dict[str, Any]], Any]
    priority: int = 0
    owner: str = ""
    deadline: float | None = None


class PluginContributions(msgspec.Struct):
    """What plugins bring, ready to be wired."""

    tools: dict[str, Tool] = {}
    hooks: list[HookRegistration] = []
    commands: dict[str, PluginCommand] = {}
    vendors: dict[str, Vendor] = {}
    channels: dict[str, Callable[[dict[str, Any]], Channel]] = {}
    skills: list[str] = []  # folders
    cli: dict[str, Callable[[list[str]], int]] = {}
    resources: dict[str, PluginResource] = {}  # by uri
    prompts: dict[str, PluginPrompt] = {}
    warnings: list[str] = []

    def attach(self, hooks: Hooks) -> None:
        """Register the hooks."""
        for one in self.hooks:
            hooks.on(one.point, one.call, priority=one.priority, owner=one.owner, deadline=one.deadline)


class PluginApi:
    """The plugin's side of the program. `config` is checked against the manifest's schema, defaults filled in."""

    def __init__(
        self, manifest: PluginManifest, entry: PluginEntry, config: dict[str, Any], home: str, hooks: Hooks
    ) -> None:
        self._manifest = manifest
        self._entry = entry
        self._hooks = hooks
        self.id = manifest.id
        self.config = config
        self.folder = manifest.folder
        self.home = home
        self.log = logging.getLogger(f"palinurus.plugins.{manifest.id}")
        self.brought = PluginContributions()

    def tool(self, made: Tool | Callable[..., Any]) -> None:
        """A tool: one made by `@tool`, a `Tool`, or a function. Policy knows it as `group:plugins` and by plugin id."""
        self._declared("tools")
        one = made if isinstance(made, Tool) else tool(made)
        self._once(self.brought.tools, one.name, "tool")
        self.brought.tools[one.name] = msgspec.structs.replace(one, origin=self.id)

    def hook(
        self, point: str | HookFunction, call: Callable[[dict[str, Any]], Any] | None = None, priority: int = 0
    ) -> None:
        """A handler: `hook(made_by_decorator)` or `hook("point", function, priority)`."""
        self._declared("hooks")
        if isinstance(point, HookFunction):
            made_by = point
            point, call, priority = made_by.point, made_by.call, made_by.priority
        if point not in HOOK_POINTS or call is None:
            raise PluginRegistrationError(f"hook {point!r}: there is no such point, or no function was given")
        if HOOK_POINTS[point].conversation and not self._entry.conversation:
            key = f"plugins.entries.{self.id}.hooks.allowConversationAccess"
            self.brought.warnings.append(f"its hook {point} is left out: it sees conversations, and {key} is not true")
            return
        made = make_async_handler(point, call)
        if not self._entry.prompt and PROMPT_FIELDS & HOOK_POINTS[point].results.keys():
            made = _without(made, PROMPT_FIELDS)
        deadline = self._entry.deadlines.get(point, self._entry.deadline)
        self.brought.hooks.append(HookRegistration(point, made, priority, self.id, deadline=deadline))

    def command(
        self,
        name: str,
        help: str,
        run: Callable[[PluginCommandCall], str | Awaitable[str]],
        usage: str = "",
        owner: bool = False,
    ) -> None:
        """A chat command /name. Commands of the program itself cannot be replaced."""
        self._declared("commands")
        if not _COMMAND.fullmatch(name):
            raise PluginRegistrationError(f"command {name!r}: a name is a-z, 0-9, - and _")
        self._once(self.brought.commands, name, "command")
        self.brought.commands[name] = PluginCommand(name, help, run, usage, owner=owner, plugin=self.id)

    def vendor(
        self,
        made: Vendor,
        supports_xhigh_thinking: ThinkingOpinion = None,
        is_binary_thinking: ThinkingOpinion = None,
        resolve_default_thinking_level: Callable[[ModelSpec], str | None] | None = None,
    ) -> None:
        """A provider of models, as a file of facts; its `api` is one the program speaks. The three hooks of older
        plugins stand for a `profile` where it has none."""
        self._declared("vendors")
        self._once(self.brought.vendors, made.id, "vendor")
        older = (supports_xhigh_thinking, is_binary_thinking, resolve_default_thinking_level)
        if made.profile is None and any(older):
            made = msgspec.structs.replace(made, profile=adapt_plugin_profile(*older))
        self.brought.vendors[made.id] = made

    def resolve_thinking_policy(self, provider: str, model: str) -> ThinkingRow:
        """The levels of a model, its labels and its default, with what the config opts into. Not before the start."""
        if self._hooks.find_policy is None:
            raise PluginRegistrationError("thinking levels are known once the program has started")
        return self._hooks.find_policy(provider, model)

    def normalize_thinking_level(self, text: object) -> str | None:
        """The canonical level for whatever was written, or None."""
        return parse_thinking(text)

    def channel(self, name: str, make: Callable[[dict[str, Any]], Channel]) -> None:
        """A channel: `make(config)` is called if channels.<name> is configured."""
        self._declared("channels")
        self._once(self.brought.channels, name, "channel")
        self.brought.channels[name] = make

    def skills(self, folder: str) -> None:
        """A folder of skills, relative to the plugin's. What the manifest lists need not be said again."""
        self._declared("skills")
        path = os.path.realpath(os.path.join(self.folder, folder))
        if not os.path.isdir(path):
            raise PluginRegistrationError(f"skills: there is no folder {folder!r}")
        if path not in self._manifest.skills:
            self.brought.skills.append(path)

    def cli(self, name: str, run: Callable[[list[str]], int]) -> None:
        """A subcommand `pal name`; `run(arguments)` returns the exit code. The manifest lists it under `cli`."""
        if name not in self._manifest.cli:
            raise PluginRegistrationError(f"cli {name!r}: the manifest does not list it under cli")
        self.brought.cli[name] = run

    def resource(self, made: PluginResource) -> None:
        """Something that other agents may read (MCP). The manifest declares `mcp`."""
        self._declared("mcp")
        self._once(self.brought.resources, made.uri, "resource")
        self.brought.resources[made.uri] = made

    def change_resource(self, uri: str) -> None:
        """Tell those who subscribed to it that it is another now."""
        self._hooks.resource_changed(uri)

    def prompt(self, made: PluginPrompt) -> None:
        """A prompt that other agents may take (MCP). The manifest declares `mcp`."""
        self._declared("mcp")
        self._once(self.brought.prompts, made.name, "prompt")
        self.brought.prompts[made.name] = made

    def trace(self, session: str, line: str) -> None:
        """A line for people who switched /trace on in this session."""
        self._hooks.trace(session, self.id, line)

    def _declared(self, capability: str) -> None:
        if capability not in self._manifest.capabilities:
            raise PluginRegistrationError(f"{capability}: the manifest does not declare this capability")

    def _once(self, taken: dict[str, Any], name: str, what: str) -> None:
        if name in taken:
            raise PluginRegistrationError(f"{what} {name!r} is registered twice")


def _without(call: Callable[[dict[str, Any]], Any], fields: frozenset[str]) -> Callable[[dict[str, Any]], Any]:
    async def run(event: dict[str, Any]) -> Any:
        result = await call(event)
        return {k: v for k, v in result.items() if k not in fields} if isinstance(result, dict) else result

    return run
