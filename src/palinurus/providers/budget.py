"""What may be spent: reserve before a model call, settle after it. `meter` puts this around a `Model`.

The truth is the ledger; accounts are made from it when the first call comes and kept in memory from then on, or, where
several nodes spend, in the store. A kill -9 loses reservations only, and those were for calls that died with the
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.credentials import BudgetLimitSettings, BudgetSettings
from palinurus.config.zones import find_zone
from palinurus.core.history import tokens
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.model import ModelFailure, ModelRequest, ModelSpec, TokenPrice
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.accounts import CallAmount, SpendingAccount, estimate_dollars, estimate_tokens
from palinurus.store.port import SessionRow, UsageRow
from palinurus.store.shared import AccountLimit, SpendingAnswer, SpendingWish
from palinurus.taping import draw_token

DEPTH = 8  # generations of sub-agents looked at
SESSIONS = 50_000  # accounts kept
AGAIN = 0.5  # seconds after which calls of other nodes are looked at again


class SpendingLedger(Protocol):
    """What is needed of the store."""

    async def session(self, key: str) -> SessionRow | None: ...

    async def sessions(self, agent: str | None = None) -> list[SessionRow]: ...

    async def list_usage(self, since: int, session: str | None = None) -> list[UsageRow]: ...


class SharedAccounts(Protocol):
    """The accounts of all nodes: see `store.shared.SharedStore`."""

    async def reserve(self, wish: SpendingWish) -> SpendingAnswer | None: ...

    def release(self, ident: str, accounts: Sequence[str], usd: float, tokens: float) -> None: ...


class BudgetScope(msgspec.Struct, frozen=True):
    """One limit that a call falls under."""

    kind: str  # day, agent, session
    name: str  # of the agent; id of the session
    day: str = ""

    @property
    def account(self) -> str:
        """What all nodes call it."""
        return f"{self.kind} {self.day} {self.name}"


class AccountPair(msgspec.Struct, frozen=True):
    """The two accounts of a scope."""

    usd: SpendingAccount
    tokens: SpendingAccount


class BudgetReservation(msgspec.Struct, frozen=True):
    """What is kept back for a call."""

    scopes: tuple[BudgetScope, ...]
    usd: CallAmount
    tokens: CallAmount
    model: ModelSpec
    shared: str = ""  # what it is called in the accounts of all nodes; "": they are this node's


class _Kin(msgspec.Struct):
    spawnedBy: str | None = None
    sessionStartedAt: int | None = None


class Budgets:
    """`reserve` and `settle`. Without limits both do nothing."""

    def __init__(
        self,
        settings: BudgetSettings,
        ledger: SpendingLedger,
        clock: Clock,
        timezone: str = "",
        shared: SharedAccounts | None = None,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._shared = shared
        self._clock = clock
        self._zone = find_zone(timezone)
        self._pairs: dict[BudgetScope, AccountPair] = {}
        self._family: dict[str, tuple[tuple[str, str], ...]] = {}  # session id -> (key, session id), own first
        self._loaded = False
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._unpriced: set[str] = set()

    @property
    def active(self) -> bool:
        limits = (self._settings.day, self._settings.session, self._settings.agent, *self._settings.agents.values())
        return any(limit != BudgetLimitSettings() for limit in limits)

    async def reserve(self, request: ModelRequest) -> BudgetReservation | ModelFailure | None:
        """Room for this call; waits for calls under way if it depends on them. None: nothing is limited."""
        if not self.active:
            return None
        await self._load()
        await self._kin(request.owner, request.session)
        shared = draw_token(8) if self._shared is not None else ""
        amounts = (estimate_dollars(request), estimate_tokens(request))
        hold = BudgetReservation(self._scopes(request), *amounts, request.model, shared)
        while True:
            verdict, full = await self._ask_all(hold) if hold.shared else self._ask_here(hold)
            if verdict == "alone":  # no other node spends anything
                hold = msgspec.structs.replace(hold, shared="")
                continue
            if verdict == "no":
                return self._refused(full)
            if verdict == "yes":
                break
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN if hold.shared else None):
                    await self._changed.wait()
        for scope in hold.scopes:
            pair = self._pair(scope)
            pair.usd.hold(hold.usd)
            pair.tokens.hold(hold.tokens)
        return hold

    async def _ask_all(self, hold: BudgetReservation) -> tuple[str, BudgetScope]:
        """As `_ask_here`, of what all nodes spend and keep back."""
        assert self._shared is not None
        free = _free(hold.model.price)
        pairs = [(scope, self._pair(scope)) for scope in hold.scopes]
        limits = tuple(
            AccountLimit(
                name=scope.account,
                usd=pair.usd.spent,
                tokens=pair.tokens.spent,
                hard_usd=None if free else pair.usd.hard,
                hard_tokens=pair.tokens.hard,
            )
            for scope, pair in pairs
        )
        wish = SpendingWish(
            hold.shared, limits, (hold.usd.likely, hold.usd.most), (hold.tokens.likely, hold.tokens.most)
        )
        try:
            got = await self._shared.reserve(wish)
        except BaseException:
            self._shared.release(hold.shared, (), 0.0, 0.0)  # it may have been granted
            raise
        if got is None:
            self._shared = None
            return "alone", hold.scopes[0]
        for (_, pair), (usd, used) in zip(pairs, got.spent, strict=True):
            pair.usd.sync(usd)
            pair.tokens.sync(used)
        return got.verdict, hold.scopes[got.full]

    def _ask_here(self, hold: BudgetReservation) -> tuple[str, BudgetScope]:
        """No, wait or yes, and which limit says no."""
        answers = {scope: self._answer(scope, hold) for scope in hold.scopes}
        full = next((scope for scope, answer in answers.items() if answer == "no"), None)
        if full is not None:
            return "no", full
        return "wait" if "wait" in answers.values() else "yes", hold.scopes[0]

    def settle(self, hold: BudgetReservation | None, usage: TokenUsage) -> list[str]:
        """The call has ended and used this. Returns what the person should be told, once."""
        if hold is None:
            return []
        told = []
        spent = usage.cost.total if usage.cost is not None else 0.0
        for scope in hold.scopes:
            pair = self._pair(scope)
            if pair.usd.settle(hold.usd, spent):
                told.append(_warning(scope, f"${pair.usd.spent:.2f}", f"${pair.usd.soft:.2f}"))
            if pair.tokens.settle(hold.tokens, tokens.count_used_tokens(usage)):
                told.append(_warning(scope, f"{pair.tokens.spent:,.0f}", f"{pair.tokens.soft:,.0f} tokens"))
        if hold.shared and self._shared is not None:
            used = tokens.count_used_tokens(usage)
            self._shared.release(hold.shared, [scope.account for scope in hold.scopes], spent, used)
        self._changed.set()
        return told + self._priceless(hold, usage)

    # --- limits and accounts -----------------------------------------------------------------------------------

    def _answer(self, scope: BudgetScope, hold: BudgetReservation) -> str:
        pair = self._pair(scope)
        usd = "yes" if _free(hold.model.price) else pair.usd.fits(hold.usd)
        found = (usd, pair.tokens.fits(hold.tokens))
        return next((word for word in ("no", "wait", "alone") if word in found), "yes")

    def _scopes(self, request: ModelRequest) -> tuple[BudgetScope, ...]:
        family = self._family.get(request.session) or ((request.owner, request.session),)
        return tuple(self._of(family, self._day(self._clock.now())))

    def _of(self, family: tuple[tuple[str, str], ...], day: str) -> Iterator[BudgetScope]:
        """Every limit these sessions are under, each once: a sub-agent spends its parents' money too."""
        yield BudgetScope("day", "", day)
        for agent in dict.fromkeys(find_agent(key) for key, _ in family):
            yield BudgetScope("agent", agent, day)
        for _, ident in family:
            yield BudgetScope("session", ident)

    def _pair(self, scope: BudgetScope) -> AccountPair:
        pair = self._pairs.get(scope)
        if pair is None:
            limit = self._limit(scope)
            pair = AccountPair(
                SpendingAccount(limit.soft_usd, limit.hard_usd), SpendingAccount(limit.soft_tokens, limit.hard_tokens)
            )
            if len(self._pairs) >= SESSIONS:
                self._prune(self._day(self._clock.now()))
            self._pairs[scope] = pair
        return pair

    def _limit(self, scope: BudgetScope) -> BudgetLimitSettings:
        if scope.kind == "agent":
            return self._settings.agents.get(scope.name, self._settings.agent)
        return self._settings.day if scope.kind == "day" else self._settings.session

    def _prune(self, day: str) -> None:
        """Days that are over go, then the oldest sessions; never an account with a call under way."""
        idle = [s for s, pair in self._pairs.items() if not pair.usd.calls]
        for scope in [s for s in idle if s.day and s.day != day] or idle[: SESSIONS // 10]:
            del self._pairs[scope]

    def _day(self, now: int) -> str:
        return datetime.datetime.fromtimestamp(now / 1000, self._zone).date().isoformat()

    # --- from the ledger ---------------------------------------------------------------------------------------

    async def _load(self) -> None:
        async with self._lock:
            if self._loaded:
                return
            now = self._clock.now()
            midnight = datetime.datetime.fromtimestamp(now / 1000, self._zone).replace(
                hour=0, minute=0, second=0, microsecond=0
            )
            since = int(midnight.timestamp() * 1000)
            rows = {row.key: row for row in await self._ledger.sessions()}
            kin = {key: _kin(row.data) for key, row in rows.items()}
            oldest = since
            if self._settings.session != BudgetLimitSettings():
                oldest = min([since, *(k.sessionStartedAt or 0 for k in kin.values())])
            for entry in await self._ledger.list_usage(oldest):
                self._enter(entry, rows, kin, since)
            self._loaded = True

    def _enter(self, entry: UsageRow, rows: Mapping[str, SessionRow], kin: Mapping[str, _Kin], since: int) -> None:
        keys: list[str] = []
        key = entry.session
        while key and key not in keys and len(keys) < DEPTH:
            keys.append(key)
            key = (kin[key].spawnedBy or "") if key in kin else ""
        family = tuple((k, rows[k].session_id if k in rows else "") for k in keys)
        begun = {rows[k].session_id: kin[k].sessionStartedAt or 0 for k in keys if k in rows}
        for scope in self._of(family, self._day(self._clock.now())):
            if entry.at >= (begun.get(scope.name, entry.at + 1) if scope.kind == "session" else since):
                pair = self._pair(scope)
                pair.usd.add(entry.cost or 0.0)
                pair.tokens.add(entry.input + entry.output + entry.cache_read + entry.cache_write)

    async def _kin(self, owner: str, session: str) -> None:
        """Find out once who spawned this session, and who spawned that one."""
        if session in self._family:
            return
        family = [(owner, session)]
        key = owner if ":subagent:" in owner else ""
        while key and len(family) < DEPTH:
            row = await self._ledger.session(key)
            key = (_kin(row.data).spawnedBy or "") if row is not None else ""
            if not key or any(key == known for known, _ in family):
                break
            parent = await self._ledger.session(key)
            family.append((key, parent.session_id if parent is not None else ""))
        if len(self._family) >= SESSIONS:
            self._family.clear()
        self._family[session] = tuple(family)

    # --- words -------------------------------------------------------------------------------------------------

    def _refused(self, scope: BudgetScope) -> ModelFailure:
        pair = self._pair(scope)
        usd, hard = pair.usd, pair.usd.hard
        where = f"budgets.{scope.kind}" if scope.name not in self._settings.agents else f"budgets.agents.{scope.name}"
        if hard is not None and (pair.tokens.hard is None or usd.spent / (hard or 1) >= _share(pair.tokens)):
            told = f"${usd.spent:.2f} of ${hard:.2f} ({where}.hardUsd)"
        else:
            told = f"{pair.tokens.spent:,.0f} of {pair.tokens.hard:,.0f} tokens ({where}.hardTokens)"
        after = "/new starts another" if scope.kind == "session" else "it begins anew at midnight"
        return ModelFailure(
            "budget", f"the budget {_WORDS[scope.kind].format(scope.name)} does not allow another call: {told}; {after}"
        )

    def _priceless(self, hold: BudgetReservation, usage: TokenUsage) -> list[str]:
        """Say once per model that a dollar limit does not see it."""
        ref = str(hold.model.ref)
        limited = any(self._limit(s).hard_usd is not None or self._limit(s).soft_usd is not None for s in hold.scopes)
        if not limited or usage.cost is not None or usage == TokenUsage() or ref in self._unpriced:
            return []
        self._unpriced.add(ref)
        return [
            f"⚠️ Budget: the price of {ref} is not known, so dollar limits do not count it. Set its cost, or hardTokens."
        ]


_WORDS = {"day": "for today", "agent": "of agent {} for today", "session": "of this conversation"}


def _warning(scope: BudgetScope, spent: str, soft: str) -> str:
    return f"⚠️ Budget {_WORDS[scope.kind].format(scope.name)}: {spent} spent, the warning was set at {soft}."


def _share(account: SpendingAccount) -> float:
    return account.spent / account.hard if account.hard else 0.0


def _free(price: TokenPrice | None) -> bool:
    return price == TokenPrice()


def _kin(data: bytes) -> _Kin:
    try:
        return msgspec.json.decode(data, type=_Kin)
    except msgspec.DecodeError:
        return _Kin()


def find_agent(key: str) -> str:
    """The agent of a session key; "" if it is none."""
    found = parse_session_key(key)
    return found.agent if found is not None else ""
