"""What happens by itself: heartbeats (agents.*.heartbeat), jobs (cron), upkeep (session.maintenance)."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import msgspec
from msgspec import UNSET

from palinurus.config.declare import Section, fill_section, option
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import (
    Bytes,
    Count,
    Days,
    DaysOrNever,
    Free,
    HoursOrNever,
    Lower,
    MillisOrNone,
    MinutesOrNever,
    OptionalSecret,
    Seconds,
    Size,
    Text,
    merge_raw,
)
from palinurus.config.kinds import Written
from palinurus.config.secrets import Secret
from palinurus.core.schedule.failure import FailureReason
from palinurus.core.schedule.heartbeat import HeartbeatHours, parse_minutes
from palinurus.patterns import compile_late

HIGH_WATER = 0.8  # of maxDiskBytes
LONGEST = 600.0  # seconds for one heartbeat when nobody says
TIME = ("is not a time of day", "write it as 08:30 (24 hours)")
_CLOCK = compile_late(r"(?:[01]\d|2[0-3]):[0-5]\d|24:00", re.ASCII)


class JobRetrySettings(Section, frozen=True):
    """cron.retry: what becomes of a job for one time that failed for a reason that passes."""

    most: Size = option(3, "How often it is tried again.", "maxAttempts")
    waits: Annotated[
        tuple[float, ...], Written(list[Size], lambda all_ms: tuple(ms / 1000 for ms in all_ms) or UNSET)
    ] = option(
        (30.0, 60.0, 300.0), "How long is waited before each try; the last one counts for all that follow.", "backoffMs"
    )
    reasons: tuple[FailureReason, ...] = option(get_args(FailureReason), "For which reasons.", "retryOn")


class FailureAlertSettings(Section, frozen=True):
    """cron.failureAlert: somebody is told when a job keeps failing."""

    enabled: bool = option(False, "Tell somebody when a job keeps failing.")
    after: Count = option(2, "After so many failures in a row.")
    cooldown: MillisOrNone = option(3600.0, "How long the same job is not told of again.", "cooldownMs")
    skipped: bool = option(False, "Times that were missed count as failures.", "includeSkipped")
    mode: Literal["announce", "webhook"] | None = option(None, "announce in a chat, or post it to cron.webhook.")
    account: Text = option("", "The account that says it.", "accountId")


class FailureDestination(Section, frozen=True):
    """cron.failureDestination: where failures are told, instead of where the job's answers go."""

    mode: Literal["announce", "webhook"] | None = option(None, "announce in a chat, or webhook: `to` is an address.")
    channel: Lower = option("", "The channel to announce it on; last is where the owner wrote last.")
    to: Text = option("", "The chat there, or the address.")
    account: Text = option("", "The account that says it.", "accountId")


class CronSettings(Section, frozen=True):
    """cron. `timezone` is for cron lines that name none; "": the machine's."""

    ABOUT: ClassVar = """
        runLog.keepLines How many runs of one job are kept; 2000 at most.
        webhookToken What is sent there as the token.
        enabled false: no job runs.
        webhook Where ends of jobs are sent.
        sessionRetention When sessions of jobs go, such as 24h; false is never.
    """
    enabled: bool = True
    webhook: Text = ""  # for jobs that deliver by webhook and name no address
    webhook_token: OptionalSecret = Secret()
    runs: Annotated[int, Written(Count, lambda lines: min(lines, 2000))] = option(200, at="runLog.keepLines")
    run_bytes: Bytes = option(2_000_000, "How large the history of one job may be.", "runLog.maxBytes")
    retry: JobRetrySettings | None = option(None, "When a job for one time is tried again; by default it is not.")
    alert: FailureAlertSettings = option(FailureAlertSettings(), "Who hears of jobs that keep failing.", "failureAlert")
    failures: FailureDestination = option(FailureDestination(), "Where failures are told.", "failureDestination")
    max_concurrent_runs: Count | None = option(None, "How many scheduled runs go on at the same time.")
    session_retention: HoursOrNever = 86_400.0
    timezone: str = option("", at=None)


class UpkeepSettings(Section, frozen=True):
    """session.maintenance. Times in seconds, None = never; sizes in bytes, None = no limit.

    What nobody set holds for sessions that the program made (jobs, webhooks, sub-agents, requests without a session):
    a person's conversations go only if the owner says when."""

    ABOUT: ClassVar = """
        mode warn: nothing goes, it is only said.
        maxDiskBytes How much all sessions may take, such as 2gb.
        highWaterBytes What is left when they were cut back.
        pruneDays The older spelling of pruneAfter, in days.
    """
    enforce: Annotated[bool, Written(Literal["enforce", "warn"], lambda word: word != "warn")] = option(True, at="mode")
    prune_after: Days = option(30 * 86_400.0, "When a session that nobody used goes; not set: only the program's own.")
    max_entries: Count = option(500, "How many sessions are kept; not set: of the program's own.")
    archive_after: DaysOrNever = option(
        30 * 86_400.0, "When an archive goes; not set: only of what was deleted.", "resetArchiveRetention"
    )
    max_disk: Bytes = option(None, at="maxDiskBytes")
    high_water: Bytes = option(None, at="highWaterBytes")
    cron_after: float | None = option(86_400.0, at=None)  # cron.sessionRetention
    people: frozenset[str] = option(frozenset(), at=None)  # age, count, archive: what holds for people's, too

    KNOWN: ClassVar = {"pruneDays": Count}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        days = raw.get("pruneDays")  # the older spelling
        prune = days * 86_400.0 if days and raw.get("pruneAfter") is None else self.prune_after
        own = raw.get("resetArchiveRetention") not in (None, "")
        water = self.high_water
        if self.max_disk is None:
            water = None
        elif water is None or water > self.max_disk:
            water = int(self.max_disk * HIGH_WATER)
        archive = self.archive_after if own else prune
        aged = raw.get("pruneAfter") is not None or bool(days)
        said = {"age": aged, "archive": own or aged, "count": raw.get("maxEntries") is not None}
        people = frozenset(name for name, set_here in said.items() if set_here)
        return msgspec.structs.replace(self, prune_after=prune, archive_after=archive, high_water=water, people=people)


class HeartbeatVisibility(Section, frozen=True):
    """channels.*.heartbeat: what of heartbeats may be seen. With none of them there is no reason to beat there."""

    ABOUT: ClassVar = """
        showOk true: also that there was nothing is shown.
        showAlerts false: what it found is not shown.
        useIndicator With none of the three there is no heartbeat there.
    """
    ok: bool = option(False, at="showOk")
    alerts: bool = option(True, at="showAlerts")
    indicator: bool = option(True, at="useIndicator")

    LOOSE: ClassVar = True


def resolve_visibility(channels: Mapping[str, Any]) -> dict[str, HeartbeatVisibility]:
    """By "channel/account", "channel", and "" for all others. An account's word goes before its channel's, that
    before channels.defaults."""
    usual = _shown(channels.get("defaults"))
    found = {"": usual}
    for name, section in channels.items():
        if name == "defaults" or not isinstance(section, dict):
            continue
        own = found[name] = merge_raw(_shown(section), usual)
        accounts = section.get("accounts")
        for account, body in accounts.items() if isinstance(accounts, dict) else ():
            found[f"{name}/{account}"] = merge_raw(_shown(body), own)
    nowhere = ConfigPlace("", {}, [])
    return {place: fill_section(HeartbeatVisibility, told, nowhere) for place, told in found.items()}


def _shown(section: Any) -> dict[str, Any]:
    written = section.get("heartbeat") if isinstance(section, Mapping) else None
    return {name: on for name, on in written.items() if isinstance(on, bool)} if isinstance(written, Mapping) else {}


def _clock(value: str) -> str:
    if value and not _CLOCK.fullmatch(value):
        raise ValueError
    return value


def _start(value: str) -> str:
    return _clock("late" if value == "24:00" else value)


class ActiveHours(Section, frozen=True):
    ABOUT: ClassVar = """
        start From when on the agent looks, such as 08:00.
        end Until when.
        timezone In which zone: user, local, or a name.
    """
    start: Annotated[str, Written(str, _start, *TIME)] = ""
    end: Annotated[str, Written(str, _clock, *TIME)] = ""
    timezone: Text = ""


class HeartbeatSettings(Section, frozen=True):
    """One agent's heartbeat. Times in seconds."""

    ABOUT: ClassVar = """
        activeHours When it looks; not set: always.
        prompt What the agent is asked; by default to look at HEARTBEAT.md.
        target Where it may write: none, last (the last chat), or a channel.
        to To whom there.
        accountId From which account.
        directPolicy block: never into a direct chat.
        model The model that is asked; by default the agent's.
        session In which session; by default the main one.
        lightContext true: with a small prompt.
        isolatedSession true: each time in a session of its own.
        includeReasoning true: with the model's thoughts.
        ackMaxChars Words beside HEARTBEAT_OK that still count as nothing to say.
        timeoutSeconds How long it may take.
        skipWhenBusy true: not while another session works.
        includeSystemPromptSection false: the prompt says nothing of heartbeats.
    """
    every: MinutesOrNever = option(
        1800.0, "How often the agent looks by itself for something to do; 0m, off or false is never."
    )
    prompt: Text = ""  # "" = ours
    target: Annotated[str, Written(str, lambda word: word.strip().lower() or "none")] = "none"  # none, last, a channel
    to: str = ""
    account: str = option("", at="accountId")  # "" = the last one used there, or the default
    direct: Literal["allow", "block"] = option(
        "allow", at="directPolicy", closed="block"
    )  # may it write to a direct chat?
    model: str = ""
    session: str = ""  # "" = the main one
    light: bool = option(False, at="lightContext")  # the small prompt
    isolated: bool = option(False, at="isolatedSession")  # a session of its own each time
    reasoning: bool = option(False, at="includeReasoning")
    ack_chars: Size = option(300, at="ackMaxChars")
    hours: HeartbeatHours | None = option(None, at=None)
    timezone: str = option("", at=None)
    timeout: Seconds = option(LONGEST, at="timeoutSeconds")
    skip_busy: bool = option(False, at="skipWhenBusy")  # also while another session works
    watch: Text = option("", "A command; the agent is asked when it prints something else than before.")
    section: bool = option(True, at="includeSystemPromptSection")
    seen: dict[str, HeartbeatVisibility] = option({}, at=None)  # what may be seen of it, by place

    KNOWN: ClassVar = {"activeHours": ActiveHours}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        told = raw.get("activeHours")
        hours = fill_section(ActiveHours, told or {}, here)
        return msgspec.structs.replace(
            self,
            hours=None
            if told is None
            else HeartbeatHours(parse_minutes(hours.start, 0), parse_minutes(hours.end, 1440)),
            timezone=hours.timezone,
            timeout=self.timeout if raw.get("timeoutSeconds") else min(self.every, LONGEST) or LONGEST,
        )

    def for_user(self, timezone: str) -> Self:
        """Its hours in the owner's zone, where it names none: "user" and nothing mean that, "local" the machine's."""
        zone = timezone if self.timezone in ("", "user") else "" if self.timezone == "local" else self.timezone
        return msgspec.structs.replace(self, timezone=zone)


def resolve_heartbeats(
    own: Mapping[str, Free | None], shared: Free | None, default: str, here: ConfigPlace
) -> dict[str, HeartbeatSettings]:
    """By agent; only those that beat. If an agent has a block of its own, those with one do, else the default agent."""
    beating = [agent for agent, told in own.items() if told is not None] or [default]
    made = {agent: fill_section(HeartbeatSettings, merge_raw(own.get(agent), shared), here) for agent in beating}
    return {agent: beat for agent, beat in made.items() if beat.every > 0}
