"""Parts that a program waiting for its first message does not need: loaded when they are first asked for.

One table, so that everything which is not loaded at the start is found here. A row names "module" or
"module:attribute"; who asks must be allowed to import that module. It knows names only.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any

PARTS: dict[str, str] = {
    # a state that several gateways share; needs the extra `fleet`
    "fleet": "palinurus.store.postgres:open_postgres_store",
    "fleet-member": "palinurus.store.postgres.link:FleetMember",
    "fleet-facts": "palinurus.app.fleet:make_node_facts",
    "fleet-keeper": "palinurus.app.fleet:FleetKeeper",
    "fleet-serves": "palinurus.app.fleet:choose_served",
    "fleet-examiner": "palinurus.store.postgres.reader:examine_server",
    "fleet-alone": "palinurus.store.postgres.roster:open_alone",
    "asyncpg": "asyncpg",
    "relay": "palinurus.inbox.relay:RunRelay",
    "shared-rules": "palinurus.services.sharedrules:SharedRules",
    "result-files": "palinurus.app.resultfiles:ResultFiles",
    "shared-signins": "palinurus.providers.signin.shared:SharedSignIns",
    "fleet-reader": "palinurus.store.postgres.reader:open_postgres_reader",
    # transcripts that a newer OpenClaw has compressed; the extra `migrate`
    "zstandard": "zstandard",
    # homes of other agent programs, for a first run on the page
    "homes": "palinurus.app.migrate:ForeignHomes",
    # what a client on a WebSocket needs
    "methods": "palinurus.gateway.methods:METHODS",
    "newer": "palinurus.gateway.ws.newer",
    "questions": "palinurus.gateway.methods.approvals:attach_approvals",
    "schedules": "palinurus.gateway.methods.cron:attach_schedules",
    "push": "palinurus.gateway.manage.push:PushNotices",
    "push-news": "palinurus.gateway.manage.push:serve_push_news",
    "connection": "palinurus.gateway.ws.connection:ClientConnection",
    "websocket": "aiohttp.web_ws:WebSocketResponse",
    # configs and manifests that are not plain JSON
    "json5": "pyjson5",
    # a run, from the first message on: its tools, its loop, who makes room for it, who speaks for it
    "tool-policy": "palinurus.core.policy.decide:decide_tools",
    "loop": "palinurus.agent.loop:loop",
    "tool-call": "palinurus.tools.call:call_tool",
    "compactor": "palinurus.agent.compaction.compactor:Compactor",
    "speaker": "palinurus.outbox.blocks:BlockSpeaker",
    # what calls tools; commands, what they may touch, and those that a killed gateway left; sessions that are too old
    "upkeep": "palinurus.sessions.upkeep:run_upkeep",
    "tool-context": "palinurus.agent.toolcalls",
    "message-action": "palinurus.tools.program.message:make_action",
    "command": "palinurus.tools.commands.running:RunningCommand",
    "command-exposure": "palinurus.tools.commands.exposure:hold_still",
    "command-strays": "palinurus.tools.commands.descendants",
    "persona": "palinurus.tools.persona",
    # what people type for the program itself
    "command-background": "palinurus.inbox.commands.background",
    "command-compact": "palinurus.inbox.commands.compact",
    "command-config": "palinurus.inbox.commands.config",
    "command-export": "palinurus.inbox.commands.export",
    "command-info": "palinurus.inbox.commands.info",
    "command-learn": "palinurus.inbox.commands.learn",
    "command-owner": "palinurus.inbox.commands.owner",
    "command-speech": "palinurus.inbox.commands.speech",
    # the tools of runs, and all that they are made of
    "toolbox": "palinurus.app.toolbox:make_toolbox",
    "web-fetch": "palinurus.tools.web.fetch",
    "web-media": "palinurus.tools.web.media",
    "web-search": "palinurus.tools.web.search",
    # what calls change in a workspace, from the first one that may
    "changes": "palinurus.tools.changes.journal:begin_window",
    "change-keeper": "palinurus.services.changes",
    "change-recovery": "palinurus.tools.changes.undo:recover_changes",
    # what an answer claims, held against what happened
    "evidence": "palinurus.core.evidence",
    # runs that another program does
    "programs": "palinurus.agent.runtimes.programs:ProgramRunner",
    # what drives a browser, and what the model is told of it
    "browser-offer": "palinurus.tools.browser.offer:BrowserOffer",
    "browser": "palinurus.tools.browser.driver:BrowserDriver",
    "browser-schema": "palinurus.tools.browser.arguments:describe_arguments",
    # pages that agents show: who keeps them, the tool itself, and the gateway's side
    "canvas": "palinurus.tools.canvas.board:CanvasBoard",
    "canvas-tool": "palinurus.tools.canvas.tool:use_canvas",
    "canvas-http": "palinurus.gateway.canvas:serve_canvas",
    "share-http": "palinurus.gateway.keep.shares:serve_share",
    "canvas-events": "palinurus.gateway.canvas:attach_canvas",
    # other machines that do something for the agent
    "nodes": "palinurus.services.nodes.board:NodeBoard",
    "nodes-offer": "palinurus.tools.nodes.offer:make_nodes_tool",
    "nodes-tool": "palinurus.tools.nodes.tool:use_nodes",
    "editor-exec": "palinurus.tools.commands.editor:run_in_editor",
    "nodes-exec": "palinurus.tools.nodes.command:run_on_node",
    # tool servers, where some are configured; talking to them needs the extra `mcp`
    "servers": "palinurus.app.mcp:make_mcp_servers",
    "strays": "palinurus.app.mcp:kill_stray_servers",
    "mcp": "palinurus.tools.mcp.link:connect_server",
    "mcp-grant": "palinurus.tools.mcp.grant:make_grant",
    "mcp-proof": "palinurus.tools.mcp.grant:sign_proof",
    "mcp-proof-key": "palinurus.tools.mcp.grant:make_proof_key",
    "sampling": "palinurus.providers.task:SamplingModel",
    "mcp-http": "palinurus.gateway.mcp.endpoint:handle_mcp",
    # what is asked over HTTP
    "completions": "palinurus.gateway.openai.endpoints",
    "models": "palinurus.gateway.openai.models",
    "stored": "palinurus.gateway.openai.stored:handle_stored",
    "invoke": "palinurus.gateway.invoke:handle_invoke",
    "history": "palinurus.gateway.history:handle_history",
    "audio": "palinurus.gateway.openai.audio:HANDLERS",
    # runs that are recorded
    "tape": "palinurus.agent.tapes.record:RunTape",
    "tape-head": "palinurus.agent.tapes.tape:TapeHead",
    "tape-write": "palinurus.agent.tapes.tape:write_tape",
    "tape-thin": "palinurus.agent.tapes.tape:thin_tapes",
    # pictures that a model makes
    "pictures": "palinurus.app.pictures:PictureMaker",
    # the operating system's keyring, where somebody signs in or has
    "keyring-finder": "palinurus.providers.signin.keyring:find_keyring",
    "token-keeper": "palinurus.app.modelsignin:make_keeper",
    "model-signins": "palinurus.app.modelsignin:ModelSignIns",
    "signin-row": "palinurus.providers.signin.renew:find_row",
    # what was installed, where something was
    "installed-skills": "palinurus.workspace.install.packages:InstalledSkills",
    # tests of one's own agent, for the pytest plugin
    "tested-loop": "palinurus.testing.scenarios.subject:AgentThread",
    "tested-agent": "palinurus.testing.scenarios.subject:make_tested_agent",
    "tested-cassette": "palinurus.testing.scenarios.subject:CassetteFile",
    "tested-tools": "palinurus.testing.scenarios.judge:compare_tools",
    "tested-sinks": "palinurus.testing.scenarios.judge:find_sinks",
    "tested-leaks": "palinurus.testing.scenarios.judge:find_leaks",
    "tested-prefix": "palinurus.testing.model:assert_prefix_stable",
    # encrypted rooms of Matrix; the extra `matrix`
    "matrix-crypto": "palinurus.channels.matrix.sealed.crypto:MatrixCrypto",
    "matrix-files": "palinurus.channels.matrix.sealed.files",
    "ciphers": "cryptography.hazmat.primitives.ciphers",
    # what the agent promises, in six languages
    "commitments": "palinurus.core.commitments",
    # plugins that came with packages: costs more than all of ours that look for plugins
    "packages": "importlib.metadata:entry_points",
}


@cache
def load_part(name: str) -> Any:
    """The part that a row names. Raises KeyError without a row, ModuleNotFoundError where its extra is missing."""
    module, _, attribute = PARTS[name].partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)


class LatePackage(ModuleType):
    """A package whose own code runs when something of it is first asked for; its modules can be imported before."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":  # its modules put it into headers; the rest of the file is what is put off
            return _read_version(self)
        if not name.startswith("__") and find_spec(f"{self.__name__}.{name}") is not None:
            return import_module(f"{self.__name__}.{name}")
        with _LOADING:  # two threads may need it at once
            if name.startswith("__") or (self.__dict__.get("_loading") and type(self) is LatePackage):
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            if type(self) is LatePackage:
                self.__dict__["_loading"] = True
                assert self.__spec__ is not None and self.__spec__.loader is not None  # made with both
                self.__spec__.loader.exec_module(self)
                object.__setattr__(self, "__class__", ModuleType)
        return getattr(self, name)


_LOADING = RLock()


def _read_version(package: ModuleType) -> str:
    """As its source says; raises AttributeError if that is not to be seen there."""
    with open(str(package.__file__), encoding="utf-8") as source:
        found = re.search(r'^__version__ = "([^"]+)"$', source.read(), re.MULTILINE)
    if found is None:
        raise AttributeError("__version__")
    return found[1]


def postpone_package(name: str) -> None:
    """For the whole program, before anything imports the package. Does nothing if it is there already, or not at all.

    aiohttp's own file imports its client, which reads the certificates of the machine twice: a quarter of a start, for
    a gateway that has called nobody yet. Its server's modules do not need it.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is not None and spec.loader is not None and spec.origin:
        package = LatePackage(name)
        package.__spec__, package.__loader__, package.__file__ = spec, spec.loader, spec.origin
        package.__path__, package.__package__ = spec.submodule_search_locations or [], name
        sys.modules[name] = package
