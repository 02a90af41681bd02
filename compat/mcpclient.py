"""Our MCP client, as the conformance suite starts it: `mcpclient.py URL` (a program: `mcpclient.py -- COMMAND …`). The
product's own parts do everything: a config with the server, `pal mcp login` where it wants a sign-in, and its tools
called as a run would call them. Only the browser and the owner, who says yes, are played here."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, cast

from palinurus.app import mcp
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.approval import ApprovalAnswer
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolSettings
from palinurus.tools.web.egress import EgressGuard

NAME = "suite"
METADATA = "https://conformance-test.local/client-metadata.json"
SKILL = "sep-2640-client-verify"  # scenarios in which a skill is loaded; in the others only its listing is looked at
ECHO, ECHOED = "json_schema_echo", "json_schema_2020_12_tool"
GRANTS = {  # scenarios in which nobody signs in
    "auth/client-credentials-basic": {"grant": "client_credentials"},
    "auth/client-credentials-jwt": {"grant": "client_credentials"},
    "auth/wif-jwt-bearer": {"grant": "jwt-bearer"},
    "auth/enterprise-managed-authorization": {"grant": "enterprise"},
}
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}, "add": {"a": 5, "b": 3}}


class Owner:
    """As much of a context as tools of servers use."""

    session, agent, run, call, taint = "agent:main:main", "main", "r", "c", ()
    inbound = Inbound(Target("suite"), Sender("owner", owner=True), "e", "use the tools", 0)
    settings = ToolSettings()

    def update(self, partial: str) -> None:
        print(partial)

    async def ask(self, ask: Any) -> ApprovalAnswer:
        print("yes to", ask.title)
        return ApprovalAnswer("allow-once")


def read_context() -> dict[str, Any]:
    """What the suite tells its client."""
    return dict(json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"))


def write_home(words: list[str]) -> str:
    """A home with that server."""
    home = tempfile.mkdtemp(prefix="mcpclient-")
    given = read_context()
    oauth = {"clientId": given.get("client_id"), "clientSecret": given.get("client_secret")}
    if os.environ.get("MCP_CONFORMANCE_SCENARIO") == "auth/basic-cimd":  # whoever has such a page writes its address
        oauth["clientId"] = METADATA
    oauth |= GRANTS.get(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), {})
    oauth |= {"privateKey": given.get("private_key_pem"), "assertionToken": given.get("valid_jwt")}
    oauth |= {"idpTokenUrl": given.get("idp_token_endpoint"), "idpClientId": given.get("idp_client_id")}
    if given.get("idp_id_token"):
        oauth["assertionFile"] = os.path.join(home, "id-token")
        Path(home, "id-token").write_text(given["idp_id_token"])
    server: dict[str, Any] = {"url": words[0], "oauth": {name: value for name, value in oauth.items() if value}}
    if words[0] == "--":
        server = {"command": words[1], "args": words[2:]}
    config = {"mcp": {"servers": {NAME: server}}, "tools": {"web": {"fetch": {"allowedHosts": ["localhost"]}}}}
    Path(home, "palinurus.json").write_text(json.dumps(config))
    return home


def sign_in(home: str) -> bool:
    """`pal mcp login`, with a browser that follows where it is sent."""
    line = [sys.executable, "-m", "palinurus", "--home", home, "mcp", "login", NAME, "--no-open"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as login:
        assert login.stdout is not None
        for said in login.stdout:
            print(said, end="")
            if re.match(r"https?://\S+$", said.strip()):
                urllib.request.urlopen(said.strip(), timeout=20).read()
        return login.wait() == 0


async def load_skill(tool: Tool) -> str:
    """As a model would that goes on after a refusal; why it was refused."""
    problem = ""
    if not os.environ["MCP_CONFORMANCE_SCENARIO"].startswith(SKILL):
        return problem
    for words in ({}, {"file": "references/FORMS.md"}):
        try:
            await tool.run(cast(ToolContext, Owner()), skill="pdf-processing", **words)
        except ToolFailure as failure:
            problem = problem or str(failure)
            print("refused:", failure)
    return problem


async def use(home: str) -> str:
    """Connect and call every tool; why that does not work, if so."""
    settings = load_config(home, {}).settings
    made = mcp.make_mcp_servers(settings, os.environ, SystemClock(), EgressGuard(settings.web.fetch.rules))
    table: dict[str, Tool] = {}
    made.attach(table, lambda: None)
    server = made.all[NAME]
    try:
        server.wake()
        await server.wait_settled()
        if not server.connected:
            return server.problem or "not connected"
        if os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("sep-2640"):
            return await load_skill(table[f"{NAME}__skill"])
        wanted = {one["name"]: one["arguments"] for one in read_context().get("toolCalls", ())}
        for name, tool in table.items():
            own = name.removeprefix(f"{NAME}__")
            args = wanted.get(own) or ARGUMENTS.get(own, {})
            if own == ECHO:  # as the server said it; what models are told of it is made fit for those
                args = {"schema": next(one["inputSchema"] for one in server.listed if one["name"] == ECHOED)}
            try:
                answer = await tool.run(cast(ToolContext, Owner()), **args)
            except ToolFailure as failure:
                return str(failure)
            assert server.facts is not None
            print(server.facts.protocol, name, answer.is_error, str(answer.content)[:300])
    finally:
        await made.close()
    return ""


def main(words: list[str]) -> int:
    """At most three sign-ins: the first, and more rights where the server says so."""
    home, problem = write_home(words), ""
    for _ in range(3):
        problem = asyncio.run(use(home))
        print("problem:", problem or "none")
        if "pal mcp login" not in problem or not sign_in(home):
            break
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
