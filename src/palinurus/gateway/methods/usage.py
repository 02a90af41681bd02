"""usage.* and sessions.usage*: what was used and what it cost, from the ledger. A message here is a model call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palinurus.core.text import cut_line
from palinurus.gateway.methods.sessions import name_origin
from palinurus.gateway.rpc import READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import extract_text, project_history
from palinurus.providers.prices import load_prices
from palinurus.services.usage import build_usage_report
from palinurus.services.why import sum_spent
from palinurus.store.port import UsageRow

Count = Annotated[int, Meta(ge=1)]


DAYS = 30
RANGES = {"7d": 7, "30d": 30, "90d": 90, "1y": 365, "all": 36_500}
LOGS = 200


class UsageSpanParams(msgspec.Struct, frozen=True, rename="camel"):
    """Which days. Clients differ in what else they say about it, so unknown fields are passed over."""

    days: Count | None = None
    start_date: str | None = None
    end_date: str | None = None
    mode: str | None = None
    utc_offset: str | None = None
    range: str | None = None
    agent_id: str | None = None


class SessionUsageParams(UsageSpanParams, frozen=True):
    key: NonEmpty | None = None
    limit: Count = 50
    order: Literal["updatedAt", "totalCost", "totalTokens"] = "updatedAt"  # ours: which rows the limit leaves


class UsageKeyParams(MethodParams, frozen=True):
    key: NonEmpty
    limit: Count = LOGS


class UsageWindow(msgspec.Struct, frozen=True):
    """Whole days, both ends included, in one time zone; in milliseconds, `end` is not inside any more."""

    first: date
    last: date
    zone: timezone
    start: int
    end: int


class UsageReportParams(MethodParams, frozen=True):
    since_ms: Annotated[int, Meta(ge=0)]
    by: Literal["model", "session", "agent", "day"] = "model"


async def report_usage(call: MethodCall, asked: UsageReportParams) -> dict[str, Any]:
    """What `pal usage` tells, for one that is on another machine. Ours."""
    entries = await call.program.store.list_usage(asked.since_ms)
    made: dict[str, Any] = msgspec.to_builtins(
        build_usage_report(entries, asked.by, asked.since_ms, load_prices().as_of)
    )
    return made


async def get_usage_cost(call: MethodCall, asked: UsageSpanParams) -> dict[str, Any]:
    """Sums by day."""
    now = call.program.clock.now()
    window = _window(asked, now)
    calls = await _calls(call, window, asked.agent_id)
    return {
        "updatedAt": now,
        "days": (window.last - window.first).days + 1,
        "daily": [{"date": day, **sum_spent(own)} for day, own in _grouped(calls, _day(window.zone))],
        "totals": sum_spent(calls),
        "cacheStatus": {"status": "fresh", "cachedFiles": 0, "pendingFiles": 0, "staleFiles": 0},
    }


async def get_session_usage(call: MethodCall, asked: SessionUsageParams) -> dict[str, Any]:
    """Sums by session, and all of them by model, provider, agent and day."""
    here = call.context
    now = here.program.clock.now()
    window = _window(asked, now)
    key = str(here.reader.key(asked.key)) if asked.key else None
    calls = [c for c in await _calls(call, window, asked.agent_id) if key in (None, c.session)]
    seen = {str(one.key): one for one in await here.reader.load_all()}
    rows = []
    for name, own in _grouped(calls, lambda c: c.session):
        record = seen[name].record if name in seen else None
        row: dict[str, Any] = {
            "key": name,
            "agentId": own[-1].agent,
            "usage": {**sum_spent(own), **_activity(own, window)},
        }
        row |= {"model": own[-1].model, "modelProvider": own[-1].provider, "updatedAt": own[-1].at}
        if record is not None:
            row |= {"sessionId": record.sessionId, "label": record.label, "channel": record.lastChannel}
        rows.append({name: value for name, value in row.items() if value is not None})
    rows.sort(key=lambda row: (-(row | row["usage"])[asked.order], -row["usage"]["totalTokens"]))
    return {
        "updatedAt": now,
        "startDate": window.first.isoformat(),
        "endDate": window.last.isoformat(),
        "sessions": rows[: asked.limit],
        "totals": sum_spent(calls),
        "aggregates": _aggregates(calls, window, {name: name_origin(one) for name, one in seen.items()}),
    }


def _aggregates(calls: list[UsageRow], window: UsageWindow, places: dict[str, str]) -> dict[str, Any]:
    n, channels = len(calls), dict[str, list[UsageRow]]()
    for call in calls:
        channels.setdefault(places.get(call.session, "web"), []).append(call)
    return {
        "sessions": len({call.session for call in calls}),
        "messages": {"total": n, "user": 0, "assistant": n, "toolCalls": 0, "toolResults": 0, "errors": 0},
        "tools": {"totalCalls": 0, "uniqueTools": 0, "tools": []},
        "byModel": [
            {"provider": own[0].provider, "model": own[0].model, "count": len(own), "totals": sum_spent(own)}
            for _, own in _grouped(calls, lambda c: f"{c.provider}/{c.model}")
        ],
        "byProvider": [
            {"provider": name, "count": len(own), "totals": sum_spent(own)}
            for name, own in _grouped(calls, lambda c: c.provider)
        ],
        "byAgent": [{"agentId": name, "totals": sum_spent(own)} for name, own in _grouped(calls, lambda c: c.agent)],
        "byChannel": [{"channel": name, "totals": sum_spent(own)} for name, own in channels.items()],
        "daily": [_daily(day, own) for day, own in _grouped(calls, _day(window.zone))],
    }


def _daily(day: str, own: list[UsageRow]) -> dict[str, Any]:
    sums = sum_spent(own)
    made = {"date": day, "tokens": sums["totalTokens"], "cost": sums["totalCost"], "messages": len(own)}
    return {**made, "toolCalls": 0, "errors": 0}


def _activity(own: list[UsageRow], window: UsageWindow) -> dict[str, Any]:
    days = [name for name, _ in _grouped(own, _day(window.zone))]
    return {"firstActivity": own[0].at, "lastActivity": own[-1].at, "activityDates": days}


async def get_usage_series(call: MethodCall, asked: UsageKeyParams) -> dict[str, Any]:
    """One point for each model call of a session."""
    here = call.context
    key = str(here.reader.key(asked.key))
    points, tokens, spent = [], 0, 0.0
    for one in await here.program.store.list_usage(0, key):
        sums = sum_spent([one])
        tokens, spent = tokens + sums["totalTokens"], spent + sums["totalCost"]
        shown = {name: sums[name] for name in ("input", "output", "cacheRead", "cacheWrite", "totalTokens")}
        point = {"timestamp": one.at, **shown, "cost": sums["totalCost"]}
        points.append({**point, "cumulativeTokens": tokens, "cumulativeCost": spent})
    return {"key": key, "points": points}


async def get_usage_logs(call: MethodCall, asked: UsageKeyParams) -> dict[str, Any]:
    """The messages of a session, each with what it used."""
    _, transcript = await call.context.reader.open(call.context.reader.key(asked.key))
    found = project_history(transcript, asked.limit, 2000) if transcript is not None else []
    return {"logs": [_log(message) for message in found]}


def _log(message: dict[str, Any]) -> dict[str, Any]:
    made = {"timestamp": message["timestamp"], "role": message["role"]}
    made["content"] = cut_line(extract_text(message), 2000)
    usage = message.get("usage")
    if usage is not None:
        made |= {"tokens": usage.get("totalTokens", 0), "cost": (usage.get("cost") or {}).get("total")}
    return made


def _grouped(calls: Iterable[UsageRow], by: Callable[[UsageRow], str]) -> list[tuple[str, list[UsageRow]]]:
    found: dict[str, list[UsageRow]] = {}
    for call in calls:
        found.setdefault(by(call), []).append(call)
    return sorted(found.items())


def _day(zone: timezone) -> Callable[[UsageRow], str]:
    return lambda call: datetime.fromtimestamp(call.at / 1000, zone).date().isoformat()


async def _calls(call: MethodCall, window: UsageWindow, agent: str | None) -> list[UsageRow]:
    found = await call.program.store.list_usage(window.start)
    return [c for c in found if c.at < window.end and agent in (None, "", c.agent)]


def _window(asked: UsageSpanParams, now: int) -> UsageWindow:
    zone = _zone(asked, now)
    last = _date(asked.end_date) or datetime.fromtimestamp(now / 1000, zone).date()
    days = asked.days or RANGES.get(asked.range or "", DAYS)
    first = _date(asked.start_date) or last - timedelta(days=min(days, last.toordinal() - 1) - 1)
    if first > last:
        raise MethodError("startDate is after endDate")
    ends = (datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() for day in (first, last))
    start, end = (int(1000 * moment) for moment in ends)
    return UsageWindow(first, last, zone, start, end=end + 86_400_000)


def _date(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise MethodError(f"invalid date: {text[:40] if text else ''} (use YYYY-MM-DD)") from None


def _zone(asked: UsageSpanParams, now: int) -> timezone:
    """`utcOffset` is written UTC+2 or UTC-05:30."""
    if asked.mode == "utc":
        return UTC
    sign, _, rest = (asked.utc_offset or "").upper().removeprefix("UTC").partition(":")
    try:
        hours = timedelta(hours=abs(int(sign)), minutes=int(rest or 0))
        return timezone(-hours if sign.startswith("-") else hours)
    except (ValueError, OverflowError):
        own = datetime.fromtimestamp(now / 1000).astimezone().utcoffset()
        return timezone(own) if own is not None else UTC


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("usage.report", READ, UsageReportParams, report_usage),
    GatewayMethod("usage.cost", READ, UsageSpanParams, get_usage_cost),
    GatewayMethod("sessions.usage", READ, SessionUsageParams, get_session_usage, listed=False),
    GatewayMethod("sessions.usage.timeseries", READ, UsageKeyParams, get_usage_series, listed=False),
    GatewayMethod("sessions.usage.logs", READ, UsageKeyParams, get_usage_logs, listed=False),
)
