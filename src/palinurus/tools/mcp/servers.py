"""All servers and their tools: a table that follows what servers say, sorted, so that prompts stay the same.

A run takes the table as it is at its beginning. A change of a server's list reaches the next run, not a running one;
until then, and while a server is away, models are told the same tools byte by byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.mcp import McpSettings
from palinurus.core.policy.groups import MCP_ORIGIN
from palinurus.core.types.sampling import SamplerPort
from palinurus.core.types.tool import Tool, ToolContext, ToolEffect, ToolOutput, ToolReach
from palinurus.core.untrusted import clean_label
from palinurus.tools.mcp import translate
from palinurus.tools.mcp.pins import McpPins
from palinurus.tools.mcp.port import McpConnect, McpHelp, McpMeans, McpProgress, McpRefusal, McpToolListing
from palinurus.tools.mcp.questions import put_question, put_sampling
from palinurus.tools.mcp.search import MOST, make_search_tools, measure_tools
from palinurus.tools.mcp.server import McpServer
from palinurus.tools.mcp.skills import SKILL, is_skill, make_skill_tool
from palinurus.tools.mcp.translate import frame_output, frame_resource, to_output

log = logging.getLogger(__name__)

NO_PINS = McpPins()
READ = "resource"  # the tool that reads resources, where a server has some
PROMPT = "prompt"  # the tool that takes a prompt of the server's, where it has some
_SHOWN = 200  # resources in a list


class McpServers:
    """`start` begins, `ready` is awaited before each run, `close` ends."""

    def __init__(
        self,
        settings: McpSettings,
        connect: Callable[[], McpConnect],
        means: McpMeans,
        clock: Clock,
        pins: McpPins = NO_PINS,
    ) -> None:
        self._pins = pins
        self.tokens = means.tokens
        self.waiting: dict[str, tuple[str, ...]] = {}  # server -> tools that are not what they were
        self.all = {
            name: McpServer(one, connect, means, clock, idle=settings.idle)
            for name, one in settings.servers.items()
            if one.enabled
        }
        self._wait = settings.wait
        self._clock = clock
        self._table: MutableMapping[str, Tool] = {}
        self._mine: dict[str, Tool] = {}
        self._told: Callable[[], None] = lambda: None

    def attach(
        self, table: MutableMapping[str, Tool], changed: Callable[[], None], sampler: SamplerPort | None = None
    ) -> None:
        """Keep our tools in `table`, and say when they changed. `sampler`: the model that servers may borrow, each time
        with a person's leave."""
        self._table, self._told = table, changed
        for server in self.all.values():
            server.changed, server.sampler = self._publish, sampler
        self._publish()

    def start(self) -> None:
        """Connect to all of them in the background."""
        for server in self.all.values():
            server.wake()

    def retry(self, name: str) -> None:
        """Somebody signed in there, or something else has changed: no waiting now."""
        if (server := self.all.get(name)) is not None:
            server.retry()

    async def ready(self) -> None:
        """Before a run: lost servers are looked for again, changed lists are asked for, and those that started only
        just now are waited for a little. Never raises."""
        for server in self.all.values():
            if server.locked and self.tokens is not None and self.tokens.has(server.settings):
                server.retry()  # somebody signed in, perhaps in another process
            server.wake()
        await asyncio.gather(*(server.refresh() for server in self.all.values()))
        now = self._clock.monotonic()
        for server in self.all.values():
            rest = server.began + self._wait - now
            if server.starting and not server.listed and rest > 0:
                try:
                    async with asyncio.timeout(rest):
                        await server.wait_settled()
                except TimeoutError:
                    seconds = self._clock.monotonic() - server.began
                    log.warning(
                        "mcp server %s is not there after %.0f s: this turn goes on without its tools",
                        server.settings.name,
                        seconds,
                    )

    async def close(self) -> None:
        """End all connections and programs."""
        await asyncio.gather(*(server.close() for server in self.all.values()))

    def _publish(self) -> None:
        others = {name: tool for name, tool in self._table.items() if name not in self._mine}
        mine: dict[str, Tool] = {}
        taken = {name.lower() for name in others}
        for server in self.all.values():
            for made in make_server_tools(server, taken, self._take_known(server)):
                taken.add(made.name.lower())
                mine[made.name] = made
        for name in self._mine:
            self._table.pop(name, None)
        self._mine = dict(sorted(self._shorten(mine).items()))
        self._table.update(self._mine)
        self._told()

    def _shorten(self, mine: dict[str, Tool]) -> dict[str, Tool]:
        """As they are; of too many to tell, only the two that find and call them are told."""
        if measure_tools(mine.values()) <= MOST:
            return mine
        counts = Counter(tool.origin.partition(":")[2] for tool in mine.values())
        sequential = any(tool.sequential for tool in mine.values())
        found = make_search_tools(counts, sequential=sequential)
        hidden = {name: msgspec.structs.replace(tool, deferred=True) for name, tool in mine.items()}
        return {**hidden, **{tool.name: tool for tool in found}}

    def _take_known(self, server: McpServer) -> tuple[McpToolListing, ...]:
        """What it lists, without what changed since the owner first used it."""
        name = server.settings.name
        known, waiting = self._pins.split_listing(name, server.listed)
        if waiting and waiting != self.waiting.get(name):
            shown = ", ".join(clean_label(one, 60) for one in waiting[:8])
            log.warning("mcp server %s: %s changed and wait; `pal mcp test`, then `pal mcp trust`", name, shown)
        self.waiting[name] = waiting
        return known


def make_server_tools(server: McpServer, taken: set[str], known: tuple[McpToolListing, ...]) -> list[Tool]:
    """A server's tools (those that are `known`) under names of their own, those in `taken` (lower case) avoided."""
    made: list[Tool] = []
    used = set(taken)
    theirs = [one for one in known if isinstance(one.get("name"), str) and not one.get("skill")]
    listed = [one for one in theirs if server.settings.offers(one["name"])]
    if theirs and not listed:
        log.warning("mcp server %s: its toolFilter leaves none of its %d tools", server.settings.name, len(theirs))
    server.left = max(len(listed) - translate.MAX_TOOLS, 0)
    if server.left:
        told = "mcp server %s: %d of its tools are not used; toolFilter.include chooses"
        log.warning(told, server.settings.name, server.left)
    for one in sorted(listed, key=lambda one: str(one["name"]))[: translate.MAX_TOOLS]:
        name = translate.make_tool_name(server.settings.name, one["name"], used)
        if name.lower() in used:
            continue  # the same tool twice
        used.add(name.lower())
        made.append(_tool(server, one, name))
    skills = [one for one in known if is_skill(one)]
    if skills and server.settings.offers(SKILL):
        made.append(make_skill_tool(server, skills, translate.make_tool_name(server.settings.name, SKILL, used)))
    if server.facts is not None and server.facts.resources and server.settings.offers(READ):
        made.append(_reader(server, translate.make_tool_name(server.settings.name, READ, used)))
    if server.facts is not None and server.facts.prompts and server.settings.offers(PROMPT):
        made.append(_prompter(server, translate.make_tool_name(server.settings.name, PROMPT, used)))
    return made


def _tool(server: McpServer, listed: McpToolListing, name: str) -> Tool:
    theirs, ours = str(listed["name"]), server.settings.name

    async def run(ctx: ToolContext, /, **arguments: Any) -> ToolOutput:
        try:
            asks = partial(put_question, ctx, ours, name), partial(put_sampling, ctx, ours, name, server.sampler)
            answer = await server.call(theirs, arguments, _shown(ctx), McpHelp(*asks))
        except McpRefusal as refusal:
            return frame_output(ours, [str(refusal)], [], {"server": ours, "tool": theirs[:80]}, error=True)
        return to_output(ours, theirs, answer)

    hints = listed.get("annotations")
    harmless = server.settings.hints and isinstance(hints, dict) and hints.get("readOnlyHint") is True
    effect: ToolEffect = "pure" if harmless else "effect"
    # a tool that reads and speaks to the open world can carry data away in what it asks for; open is MCP's default
    closed = harmless and isinstance(hints, dict) and hints.get("openWorldHint") is False
    about = translate.describe_tool(ours, listed)
    return Tool(
        name,
        about,
        translate.clean_schema(listed.get("inputSchema")),
        run,
        effect=effect,
        origin=f"{MCP_ORIGIN}:{ours}",
        reach=ToolReach("mine" if closed else "out"),
        sequential=not server.settings.parallel,
    )


def _reader(server: McpServer, name: str) -> Tool:
    async def take(uri: str = "") -> list[str] | ToolOutput:
        if uri:
            read = await server.use(lambda link: link.read(uri, server.settings.timeout))
            return frame_resource(server.settings.name, read)
        return [_row(one) for one in (await server.use(lambda link: link.resources()))[:_SHOWN]] or ["(no resources)"]

    given = {"uri": {"type": "string", "description": "URI of the resource"}}
    return _adapt(server, name, "Read a resource by its URI; without one, list what there is.", given, take=take)


def _prompter(server: McpServer, name: str) -> Tool:
    async def take(prompt: str = "", arguments: dict[str, str] | None = None) -> list[str] | ToolOutput:
        if prompt:
            words = {str(key): str(value) for key, value in (arguments or {}).items()}
            got = await server.use(lambda link: link.prompt(prompt, words, server.settings.timeout))
            return [f"{role}: {said}" for role, said in got.messages]
        found = await server.use(lambda link: link.prompts())
        return [_describe_prompt(one) for one in found[:_SHOWN]] or ["(no prompts)"]

    given = {
        "prompt": {"type": "string", "description": "Name of the prompt"},
        "arguments": {"type": "object", "description": "What it asks for, by name", "additionalProperties": True},
    }
    return _adapt(server, name, "Take one of its prompts by name; without one, list what there is.", given, take=take)


def _adapt(
    server: McpServer, name: str, about: str, given: dict[str, Any], *, take: Callable[..., Awaitable[Any]]
) -> Tool:
    """A tool of ours that asks the server. `take` gives lines, or the whole result."""
    ours = server.settings.name

    async def run(ctx: ToolContext, /, **arguments: Any) -> ToolOutput:
        try:
            told = await take(**arguments)
        except McpRefusal as refusal:
            return frame_output(ours, [str(refusal)], [], {"server": ours}, error=True)
        return told if isinstance(told, ToolOutput) else frame_output(ours, told, [], {"server": ours})

    about = f"[MCP server {clean_label(ours, 40)}] {about}"
    reach, schema = ToolReach("asks", to=tuple(given)), {"type": "object", "properties": given}
    return Tool(name, about, schema, run, effect="pure", origin=f"{MCP_ORIGIN}:{ours}", reach=reach)


def _describe_prompt(one: Mapping[str, Any]) -> str:
    listed = one.get("arguments")
    words = [str(arg.get("name")) for arg in listed if isinstance(arg, dict)] if isinstance(listed, list) else []
    about = clean_label(str(one.get("description") or ""), 200)
    return f"{clean_label(str(one.get('name')), 80)}({clean_label(', '.join(words), 200)})  {about}".strip()


def _row(one: Mapping[str, Any]) -> str:
    return f"{clean_label(str(one.get('uri')))}  {clean_label(str(one.get('name') or ''))}"


def _shown(ctx: ToolContext) -> McpProgress:
    def told(done: float, total: float | None, message: str) -> None:
        share = f"{done:g} of {total:g}" if total else f"{done:g}"
        ctx.update(f"{share} {clean_label(message, 200)}".strip())

    return told
