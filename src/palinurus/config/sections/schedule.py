"""agents.*.heartbeat -> when and how each agent looks by itself for something to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry
from palinurus.config.schema.rest import CronSection
from palinurus.config.secrets import Secret
from palinurus.core import durations
from palinurus.core.schedule.heartbeat import HeartbeatHours, parse_minutes
from palinurus.core.types.keys import parse_agent_id

# cron: whether jobs run, how many at once, where results may be posted, how many runs are remembered. Pure.

RUNS, MOST = 200, 2000


class CronSettings(msgspec.Struct, frozen=True):
    """`timezone` is for cron lines that name none; "": the machine's."""

    enabled: bool = True
    webhook: str = ""  # for jobs that deliver by webhook and name no address
    webhook_token: Secret = Secret()
    runs: int = RUNS  # remembered of each job
    timezone: str = ""


def resolve_cron(config: Config, timezone: str) -> CronSettings:
    """The settings."""
    section = config.cron or CronSection()
    kept = (section.run_log or {}).get("keepLines") if isinstance(section.run_log, dict) else None
    token = section.webhook_token
    return CronSettings(
        enabled=section.enabled is not False,
        webhook=(section.webhook or "").strip(),
        webhook_token=Secret(token if isinstance(token, str) else ""),
        runs=min(kept, MOST) if isinstance(kept, int) and kept > 0 else RUNS,
        timezone=timezone,
    )


# channels.*.heartbeat: what of heartbeats may be seen in a chat. An account's word goes before its channel's, that
# before channels.defaults. Pure.


class HeartbeatVisibility(msgspec.Struct, frozen=True):
    """showOk, showAlerts, useIndicator. With none of them there is no reason to beat for that chat."""

    ok: bool = False
    alerts: bool = True
    indicator: bool = True


_KEYS = {"showOk": "ok", "showAlerts": "alerts", "useIndicator": "indicator"}


def resolve_visibility(config: Config) -> dict[str, HeartbeatVisibility]:
    """By "channel/account", "channel", and "" for all others."""
    channels = config.channels or {}
    usual = _over(HeartbeatVisibility(), channels.get("defaults"))
    found = {"": usual}
    for name, section in channels.items():
        if name == "defaults" or not isinstance(section, dict):
            continue
        own = found[name] = _over(usual, section)
        accounts = section.get("accounts")
        for account, body in accounts.items() if isinstance(accounts, dict) else ():
            found[f"{name}/{account}"] = _over(own, body)
    return found


def _over(base: HeartbeatVisibility, section: Any) -> HeartbeatVisibility:
    written = section.get("heartbeat") if isinstance(section, Mapping) else None
    if not isinstance(written, Mapping):
        return base
    changes = {own: written[key] for key, own in _KEYS.items() if isinstance(written.get(key), bool)}
    return msgspec.structs.replace(base, **changes)


EVERY = 1800.0
LONGEST = 600.0  # seconds for one heartbeat when nobody says


class HeartbeatSettings(msgspec.Struct, frozen=True):
    """One agent's. Times in seconds."""

    every: float = EVERY
    prompt: str = ""  # "" = ours
    target: str = "none"  # none, last, or a channel
    to: str = ""
    account: str = ""  # "" = the last one used there, or the default
    direct: Literal["allow", "block"] = "allow"  # directPolicy: may it write to a direct chat?
    model: str = ""
    session: str = ""  # "" = the main one
    light: bool = False  # lightContext: the small prompt
    isolated: bool = False  # a session of its own each time
    reasoning: bool = False  # includeReasoning
    ack_chars: int = 300
    hours: HeartbeatHours | None = None
    timezone: str = ""
    timeout: float = LONGEST
    skip_busy: bool = False  # skipWhenBusy: also while another session works
    watch: str = ""  # a command whose output is compared; "" = none
    seen: dict[str, HeartbeatVisibility] = {}  # what may be seen of it, by place; see `visible`


def resolve_heartbeats(config: Config, written: Mapping[str, AgentEntry], default: str) -> dict[str, HeartbeatSettings]:
    """By agent; only those that beat. If an agent has a block of its own, those with one do, else the default agent."""
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    entries = {parse_agent_id(key): entry for key, entry in written.items()}
    own = [key for key, entry in entries.items() if key and entry.heartbeat is not None]
    made = {key: _one(entries.get(key) or AgentEntry(), defaults) for key in own or [default]}
    seen = resolve_visibility(config)
    return {key: msgspec.structs.replace(beat, seen=seen) for key, beat in made.items() if beat.every > 0}


def _one(entry: AgentEntry, defaults: AgentDefaults) -> HeartbeatSettings:
    base = HeartbeatSettings()

    def pick(name: str, otherwise: Any) -> Any:
        found = (getattr(beat, name) for beat in (entry.heartbeat, defaults.heartbeat) if beat is not None)
        return next((value for value in found if value is not None), otherwise)

    written = pick("every", "")
    seconds = durations.parse_duration(written, "m") if written != "" else None
    every = base.every if seconds is None else float(seconds)
    hours = pick("active_hours", None)
    return HeartbeatSettings(
        every=every,
        prompt=str(pick("prompt", "")).strip(),
        target=str(pick("target", "none")).strip().lower() or "none",
        to=pick("to", ""),
        account=pick("account_id", ""),
        direct=pick("direct_policy", base.direct),
        model=pick("model", ""),
        session=pick("session", ""),
        light=pick("light_context", False),
        isolated=pick("isolated_session", False),
        reasoning=pick("include_reasoning", False),
        ack_chars=pick("ack_max_chars", base.ack_chars),
        hours=HeartbeatHours(parse_minutes(hours.start, 0), parse_minutes(hours.end, 1440)) if hours else None,
        timezone=_zone(hours.timezone if hours else "", defaults.user_timezone),
        timeout=float(pick("timeout_seconds", 0)) or min(every, LONGEST) or LONGEST,
        skip_busy=pick("skip_when_busy", False),
        watch=str(pick("watch", "")).strip(),
    )


def _zone(written: str | None, user: str | None) -> str:
    """ "user" and nothing mean the owner's zone, "local" the machine's."""
    word = (written or "").strip()
    return (user or "").strip() if word in ("", "user") else "" if word == "local" else word
