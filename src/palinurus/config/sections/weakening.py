"""Settings that make the program less safe than it is by itself: one table, which doctor, the start of the gateway,
`pal security audit` and the page read. A config without any of them gives nothing.

A row is not an error: the owner may mean it. It says what follows from it, and what to write instead. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from palinurus.config.sections.channels import AccountSettings
from palinurus.config.sections.gateway import is_loopback
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.policy.admission import EVERYBODY
from palinurus.core.types.sandbox import ANY_PORT

SHORT = 20  # characters of a secret that can be guessed
HASTE = 1_000  # wrong tries a minute
BUSY = 200  # messages a minute of one stranger
WIDE = {4: 16, 6: 32}  # networks of proxies that are larger are everybody
# Folders that hold more than one project.
HOMES = ("/", "/home", "/root", "/Users", "/etc", "/var", "/opt", "/usr")


class Weakness(msgspec.Struct, frozen=True):
    """One setting that is weaker than it needs to be. `grave`: others get in, or at the host."""

    key: str
    what: str
    fix: str
    grave: bool = False


class WeakeningRow(NamedTuple):
    """`find` gives the names that fill the braces of `key`, one for each place where it is so."""

    key: str
    what: str
    fix: str
    find: Callable[[Settings], Iterable[str]]
    grave: bool = False


def list_weaknesses(settings: Settings) -> tuple[Weakness, ...]:
    """All that the settings say in favour of less safety, in the table's order."""
    return tuple(
        Weakness(row.key.replace("{}", name), row.what.replace("{}", name), row.fix, row.grave)
        for row in WEAKENING
        for name in dict.fromkeys(row.find(settings))
    )


def _if(holds: Callable[[Settings], object]) -> Callable[[Settings], Iterable[str]]:
    return lambda settings: ("",) if holds(settings) else ()


def _agents(holds: Callable[[AgentSettings], object]) -> Callable[[Settings], Iterable[str]]:
    return lambda settings: (ident for ident, agent in settings.agents.items() if holds(agent))


def _accounts(holds: Callable[[AccountSettings], object]) -> Callable[[Settings], Iterable[str]]:
    def find(settings: Settings) -> Iterator[str]:
        for channel, accounts in settings.accounts.items():
            yield from (channel for account in accounts.values() if holds(account))

    return find


def _everybody(account: AccountSettings) -> bool:
    return account.dm == "open" and EVERYBODY in account.allow_from


def _everybody_in_groups(account: AccountSettings) -> bool:
    rows = account.groups.values()
    listed = EVERYBODY in account.group_allow_from or any(EVERYBODY in (row.allow_from or ()) for row in rows)
    return account.group == "open" or listed or any(row.policy == "open" for row in rows)


def _several_people(settings: Settings) -> bool:
    """May more than one person write?"""
    every = [account for accounts in settings.accounts.values() for account in accounts.values()]
    return any(one.dm == "pairing" or _everybody(one) or len(one.allow_from) > 1 for one in every)


def _unasked(settings: Settings) -> Iterator[str]:
    rules = ((ident, agent.exec) for ident, agent in settings.approvals.items())
    return (ident for ident, one in rules if one.security == "full" and one.ask == "off")


def _elevated(settings: Settings) -> Iterator[str]:
    return (ident for ident, agent in settings.approvals.items() if agent.exec.elevated in ("on", "full"))


def _elevated_by_all(settings: Settings) -> Iterator[str]:
    for ident, agent in settings.approvals.items():
        lists = (ids for table in agent.allow_from for ids in table.values())
        yield from (ident for ids in lists if EVERYBODY in ids)


def _wide_proxies(settings: Settings) -> Iterator[str]:
    for peer in settings.gateway.proxy.peers if settings.gateway.proxy else ():
        network = ipaddress.ip_network(peer)
        if network.prefixlen < WIDE[network.version]:
            yield str(peer)


def _mcp(settings: Settings) -> Iterator[str]:
    return (name for name, one in settings.mcp.servers.items() if one.command and not one.contained)


def _wide_paths(agent: AgentSettings) -> bool:
    return any(path.rstrip("/") in HOMES or not path.strip("/") for path in (*agent.sandbox.read, *agent.sandbox.write))


def _programs(settings: Settings) -> Iterator[str]:
    loose = ("bypassPermissions", "dontAsk", "never", "danger-full-access")
    every = settings.runtimes.programs.items()
    return (name for name, one in every if {one.permission, one.approval, one.sandbox}.intersection(loose))


def _soft_channels(settings: Settings) -> Iterator[str]:
    taint = settings.tools.taint
    return (name for modes in (taint.agents, taint.channels) for name, mode in modes.items() if mode == "off")


def _trusted(everybody: bool) -> Callable[[Settings], Iterable[str]]:
    return _if(lambda s: any(one.endswith(f":{EVERYBODY}") == everybody for one in s.people.trusted))


def _weak_hook_token(settings: Settings) -> bool:
    hooks = settings.webhooks
    return hooks.enabled and 0 < len(hooks.token.reveal()) < SHORT


WEAKENING: tuple[WeakeningRow, ...] = (
    # who gets in
    WeakeningRow(
        "gateway.auth.mode", "none: every program on this machine can use the agent as its owner",
        "set it to token", _if(lambda s: s.gateway.auth_mode == "none"), True,
    ),
    WeakeningRow(
        "gateway.bind", "other machines can connect, and what is said can be read on the way: there is no TLS",
        "set gateway.tls.enabled to true, or gateway.bind to loopback",
        _if(lambda s: not is_loopback(s.gateway.bind) and not s.gateway.tls.enabled), True,
    ),
    WeakeningRow(
        "gateway.auth.token", f"shorter than {SHORT} characters: it can be guessed",
        "leave it out: the gateway makes one at its first start",
        _if(lambda s: s.gateway.auth_mode == "token" and 0 < len(s.gateway.token.reveal()) < SHORT), True,
    ),
    WeakeningRow(
        "gateway.auth.password", "shorter than 12 characters: it can be guessed",
        "use a longer one, or gateway.auth.mode token",
        _if(lambda s: s.gateway.auth_mode == "password" and len(s.gateway.password.reveal()) < 12), True,
    ),
    WeakeningRow(
        "gateway.auth.rateLimit", "wrong credentials are hardly counted: they can be guessed at leisure",
        "leave maxAttempts at 10 and exemptLoopback at false",
        _if(lambda s: s.gateway.login_limits.exempt_loopback or s.gateway.login_limits.attempts > HASTE),
    ),
    WeakeningRow(
        "gateway.trustedProxies", "{} is a whole network: whoever is in it can say who they are",
        "name the proxy's own address", _wide_proxies, True,
    ),
    WeakeningRow(
        "gateway.controlUi.allowedOrigins", "*: any web page in the owner's browser may try to connect",
        "name the origins of your pages", _if(lambda s: "*" in s.gateway.allowed_origins), True,
    ),
    WeakeningRow(
        "gateway.tools.allow", "tools that are kept from callers without a run can be called by them",
        "take the names out", _if(lambda s: s.gateway.tools.allow),
    ),
    # who may write, and what that gives
    WeakeningRow(
        "channels.{}.dmPolicy", "open to *: anybody can write to the agent, and costs money",
        "set it to pairing", _accounts(_everybody),
    ),
    WeakeningRow(
        "channels.{}.groupPolicy", "open: whoever is in a group with the agent can use it",
        "set it to allowlist and name people in groupAllowFrom", _accounts(_everybody_in_groups),
    ),
    WeakeningRow(
        "channels.{}.allowBots", "other programs can write to the agent, also in loops",
        'set it to false, or to "mentions"', _accounts(lambda a: a.bots == "on"),
    ),
    WeakeningRow(
        "channels.{}.messagesPerMinute", f"more than {BUSY}: one stranger can use up the budget",
        "leave it at 20", _accounts(lambda a: a.rate > BUSY),
    ),
    WeakeningRow(
        "tools.trustFrom", "a whole channel: whoever can write there runs commands and changes files as the owner does",
        "name people (telegram:123), or nobody", _trusted(True), True,
    ),
    WeakeningRow(
        "tools.trustFrom", "people and groups named there run commands and change files as the owner does",
        "keep it as short as it can be", _trusted(False),
    ),
    WeakeningRow(
        "memory.allowFrom", "a group: everybody in it learns what the owner noted",
        "name people instead", _if(lambda s: any(":group:" in one for one in s.people.memory)),
    ),
    WeakeningRow(
        "commands.allowFrom", "*: whoever can write can give commands",
        "name people", _if(lambda s: any(EVERYBODY in ids for ids in (s.people.commands or {}).values())), True,
    ),
    WeakeningRow(
        "session.dmScope", "main: people who write share one conversation with the owner, and read it",
        "set it to per-channel-peer",
        _if(lambda s: "main" in (s.session.dm_scope, s.session.scope.replace("global", "main")) and _several_people(s)),
        True,
    ),
    WeakeningRow(
        "tools.sessions.visibility", "all: every session can read every other one",
        "leave it at tree", _if(lambda s: s.reach.visibility == "all"),
    ),
    WeakeningRow(
        "tools.agentToAgent.allow", "*: agents write to each other without bounds",
        "name the agents", _if(lambda s: s.reach.across and "*" in s.reach.allow),
    ),
    WeakeningRow(
        "tools.message.crossContext.allowAcrossProviders", "anybody's turn may write to other channels",
        "leave it out: then the owner's may", _if(lambda s: s.messaging.across is True),
    ),
    # what holds commands
    WeakeningRow(
        "agents.defaults.sandbox.contain (agent {})", "off: commands run as you, with all your files",
        "set it to auto", _agents(lambda a: a.sandbox.contain == "off"), True,
    ),
    WeakeningRow(
        "tools.exec (agent {})", "security full and ask off: commands outside the sandbox run unasked",
        "leave security and ask out", _unasked, True,
    ),
    WeakeningRow(
        "agents.defaults.elevatedDefault (agent {})", "on or full: commands leave the sandbox without being told to",
        "leave it out, and say /elevated when it is needed", _elevated, True,
    ),
    WeakeningRow(
        "tools.elevated.allowFrom (agent {})", "*: whoever may write can ask for commands outside the sandbox",
        "name people", _elevated_by_all, True,
    ),
    WeakeningRow(
        "agents.defaults.sandbox.unixSockets (agent {})",
        "programs that listen on sockets (Docker, session bus) do what commands ask",
        "set it to false", _agents(lambda a: a.sandbox.unix), True,
    ),
    WeakeningRow(
        "agents.defaults.sandbox.connect (agent {})",
        "any: commands reach every port, databases and cloud metadata among them",
        "set it to default, or list ports", _agents(lambda a: a.sandbox.connect == ANY_PORT),
    ),
    WeakeningRow(
        "agents.defaults.sandbox.read (agent {})", "a folder of the system or of all users is open to commands",
        "name the folders of one project", _agents(_wide_paths),
    ),
    WeakeningRow(
        "agents.defaults.sandbox.limits (agent {})",
        "no bound on processes or file size: one command can take the machine",
        "leave them out",
        _agents(lambda a: 0 in (a.sandbox.limits.processes, a.sandbox.limits.file_bytes)),
    ),
    WeakeningRow(
        "agents.defaults.sandbox.docker (agent {})", "the container keeps capabilities, or can write its root",
        "leave capDrop and readOnlyRoot out",
        _agents(lambda a: a.sandbox.mode != "off" and (not a.sandbox.box.cap_drop or not a.sandbox.box.read_only)),
    ),
    WeakeningRow(
        "tools.exec.applyPatch.workspaceOnly (agent {})", "false: patches change files outside the workspace",
        "set it to true", _agents(lambda a: not a.tools.exec.patch_workspace_only),
    ),
    WeakeningRow(
        "mcp.servers.{}.sandbox", "the server runs outside any sandbox, with all your files",
        "set sandbox.enabled to true", _mcp,
    ),
    WeakeningRow(
        "mcp.servers.{}.sslVerify", "its certificate is not checked: whoever sits between can read its token",
        "leave it out", lambda s: (name for name, one in s.mcp.servers.items() if not one.verify), True,
    ),
    WeakeningRow(
        "agents.defaults.cliBackends.{}", "the program does what it likes without asking",
        "leave permissionMode, approvalPolicy and sandbox out", _programs, True,
    ),
    # what came from outside
    WeakeningRow(
        "tools.taint", "off: what a page or a mail says can make the agent act outside unasked",
        "set tools.taint.mode to judged", _if(lambda s: not s.tools.taint.enabled), True,
    ),
    WeakeningRow(
        "tools.taint.allow", "effects named there are not asked about, whatever the agent has read",
        "take the names out", _if(lambda s: s.tools.taint.allow),
    ),
    WeakeningRow(
        "tools.taint ({})", "off there: what a page says can make the agent act unasked",
        "take the word out", _soft_channels, True,
    ),
    WeakeningRow(
        "tools.web.fetch.allowPrivate", "pages of the private network are fetched for whoever asks",
        "name single hosts in allowedHosts", _if(lambda s: s.web.fetch.rules.private), True,
    ),
    WeakeningRow(
        "browser.ssrfPolicy.dangerouslyAllowPrivateNetwork", "every page in the browser reaches the private network",
        "name single hosts in browser.ssrfPolicy.allowedHostnames", _if(lambda s: s.browser.rules.private), True,
    ),
    WeakeningRow(
        "browser.noSandbox", "pages are held by our sandbox alone, not by Chromium's too",
        "set it to false", _if(lambda s: s.browser.no_sandbox),
    ),
    WeakeningRow(
        "hooks.mappings.{}.allowUnsafeExternalContent", "what a caller sends stands in the owner's words",
        "set it to false", lambda s: (hook.id or hook.path for hook in s.webhooks.hooks if hook.inline), True,
    ),
    WeakeningRow(
        "hooks.token", f"shorter than {SHORT} characters: it can be guessed",
        "use a long random text", _if(_weak_hook_token), True,
    ),
    WeakeningRow(
        "hooks.allowRequestSessionKey", "a caller chooses the session, and no prefix bounds it",
        "set hooks.allowedSessionKeyPrefixes", _if(lambda s: s.webhooks.choose and not s.webhooks.prefixes),
    ),
    WeakeningRow(
        "logging.redactSensitive", "off: what looks like a key is written to the log",
        "leave it at tools", _if(lambda s: s.logging.redact == "off"),
    ),
)  # fmt: skip
