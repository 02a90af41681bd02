"""Which key is used when: a session keeps its key, a key that failed rests, the next one takes over.

What is known about keys is kept in memory and in `auth-state.json` (0600, replaced whole, not synced). After a
kill -9 the last rests may be forgotten: then a key is asked once too early, which costs one failed call.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.credentials import AuthSettings
from palinurus.core.types.model import FailureKind, ModelFailure, ModelRequest
from palinurus.files import write_whole_file
from palinurus.providers import backoff
from palinurus.providers.backoff import DEFAULT_RULES, CooldownRules, KeyHealth
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import MODES, KeyLease, KeyProfile

log = logging.getLogger(__name__)

# Fetches a new token for a profile. Returns a ModelFailure instead of raising; keeping the new one is its own affair.
Refresh: TypeAlias = Callable[[KeyProfile], Awaitable[KeyProfile | ModelFailure]]

FILE = "auth-state.json"
SESSIONS = 10_000  # remembered choices
EARLY = 60_000  # ms before its end at which a token counts as expired
REFRESHING = 30.0  # seconds a refresh may take
PROBE_WINDOW = 2 * backoff.MINUTE  # so long before its rest ends a key may be tried …
PROBE_EVERY = 30_000  # … at most so often per provider

# Failures another key of the same provider may not have.
ROTATES: frozenset[FailureKind] = frozenset({"auth", "billing", "rate_limit", "overloaded", "timeout"})


class _State(msgspec.Struct):
    version: int = 1
    usageStats: dict[str, KeyHealth] = {}


class KeyRotation:
    """Hands out keys and hears how they did. With `home` "" nothing is kept on disk."""

    def __init__(self, clock: Clock, home: str = "", refresh: Refresh | None = None) -> None:
        self._clock = clock
        self._file = os.path.join(home, FILE) if home else ""
        self._refresh = refresh
        self._lasting: set[str] = set()  # profiles that can be renewed
        self._health: dict[str, KeyHealth] | None = None
        self._rules: dict[str, CooldownRules] = {}  # by profile
        self._pins: OrderedDict[tuple[str, str], str] = OrderedDict()  # (session, provider) -> profile
        self._probed: dict[str, int] = {}
        self._fresh: dict[str, KeyProfile] = {}  # tokens fetched since the start
        self._fetched: dict[str, int] = {}
        self._stale: set[str] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self.tell: Callable[[str, KeyHealth], object] = lambda ident, health: None  # that a key began or ceased to rest

    # --- choosing ----------------------------------------------------------------------------------------------

    async def pick(self, request: ModelRequest, place: Catalog) -> KeyLease | ModelFailure:
        """The session's key, else the first that does not rest. When all rest and another model stands by, a failure.

        Without one the key that rests least is used: the person gets the provider's word instead of ours.
        """
        provider, model, now = request.model.ref.provider, request.model.ref.model, self._clock.now()
        found = [self._current(p) for p in place.profiles(provider)]
        if not found:
            key = place.key(request.model)
            return key if isinstance(key, ModelFailure) else KeyLease(key)
        for profile in found:
            self._rules[profile.id] = make_cooldown_rules(place.settings.auth, provider)
            if profile.renewal:
                self._lasting.add(profile.id)
        explicit = bool(place.settings.auth.order.get(provider))
        ordered = self._ordered(found, request, explicit, now)
        first = ordered[0]
        left = backoff.measure_rest(self._of(first), model, now)
        if left and request.fallback and not self._probe(provider, first, left, now):
            return self._resting(provider, ordered, left, first)
        chosen = await self._usable(ordered, model, now)
        if isinstance(chosen, ModelFailure):
            return chosen
        if request.session:
            self._pin(request.session, provider, chosen.id)
        others = tuple(p.id for p in found if p.id != chosen.id)
        return KeyLease(
            chosen.secret,
            chosen.id,
            model,
            now,
            others=others,
            bearer=chosen.mode == "oauth",
            headers=chosen.headers,
            base_url=chosen.base_url,
        )

    def forget(self, session: str) -> None:
        """The session chooses anew: its history was compacted, so no cache is lost."""
        for key in [k for k in self._pins if k[0] == session]:
            del self._pins[key]

    def _ordered(self, found: list[KeyProfile], request: ModelRequest, explicit: bool, now: int) -> list[KeyProfile]:
        model = request.model.ref.model
        pinned = self._pins.get((request.session, request.model.ref.provider))

        def place(entry: tuple[int, KeyProfile]) -> tuple[int, int, int, int, int]:
            at, profile = entry
            left = backoff.measure_rest(self._of(profile), model, now)
            chosen = 0 if profile.id == request.profile else 1 if profile.id == pinned else 2
            if explicit:
                return (left, chosen, 0, 0, at)
            return (left, chosen, MODES.index(profile.mode), self._of(profile).last_used, at)

        return [profile for _, profile in sorted(enumerate(found), key=place)]

    async def _usable(self, ordered: list[KeyProfile], model: str, now: int) -> KeyProfile | ModelFailure:
        """The first, with a token that is good; if none can be had, the next that does not rest."""
        got = await self._renewed(ordered[0], now)
        for other in ordered[1:]:
            if not isinstance(got, ModelFailure):
                break
            if not backoff.measure_rest(self._of(other), model, now):
                got = await self._renewed(other, now)
        return got

    def _probe(self, provider: str, first: KeyProfile, left: int, now: int) -> bool:
        """May a key that rests be tried, to see whether the provider has recovered? In the second half at most."""
        half = (self._of(first).cooldown_until - self._of(first).failed_at) // 2
        if left > min(PROBE_WINDOW, half) or 0 <= now - self._probed.get(provider, -PROBE_EVERY) < PROBE_EVERY:
            return False
        self._probed[provider] = now
        return True

    def _resting(self, provider: str, ordered: list[KeyProfile], left: int, first: KeyProfile) -> ModelFailure:
        kind: FailureKind = self._of(first).reason or "rate_limit"  # type: ignore[assignment]
        count = f"all {len(ordered)} keys rest" if len(ordered) > 1 else "the key rests"
        words = backoff.WORDS.get(kind, "a failure")
        minutes = -(-left // backoff.MINUTE)
        return ModelFailure(kind, f"{provider}: {count} after {words}, for {minutes} min more", retry_after=left / 1000)

    # --- hearing -----------------------------------------------------------------------------------------------

    def has_spare(self, key: KeyLease, failure: ModelFailure) -> bool:
        """Would another key be worth a try?"""
        now = self._clock.now()
        if failure.kind not in ROTATES:
            return False
        if failure.kind == "auth" and key.profile in self._stale:
            return True
        return any(
            not backoff.measure_rest(self._state().get(other, KeyHealth()), key.model, now) for other in key.others
        )

    def report(self, key: KeyLease, failure: ModelFailure | None) -> bool:
        """Remember how it went (None: well); True: another try may do better now. A call that began before the key was
        put to rest changes nothing."""
        if not key.profile:
            return False
        now = self._clock.now()
        health = self._state().get(key.profile, KeyHealth())
        if failure is None:
            if health.failed_at <= key.at:
                self._note(key.profile, backoff.record_success(health, now))
            return False
        overtaken = health.cooldown_until > now and health.failed_at >= key.at
        if not overtaken:
            rules = self._rules.get(key.profile, DEFAULT_RULES)
            after = backoff.record_failure(health, failure, key.model, now, rules=rules)
            if failure.kind == "auth" and self._renewable(key.profile, now):
                self._stale.add(key.profile)  # a token may have expired early: fetch another before giving up
            elif after is not health:
                self._note(key.profile, after)
        return self.has_spare(key, failure)

    # --- tokens ------------------------------------------------------------------------------------------------

    def _current(self, profile: KeyProfile) -> KeyProfile:
        fresh = self._fresh.get(profile.id)
        if fresh is not None and _is_later(fresh, profile):
            profile = fresh
        mark = hashlib.sha256(profile.secret.reveal().encode("utf-8", "replace")).hexdigest()[:12]
        if self._of(profile).mark not in ("", mark):  # another key under the same name
            self._state()[profile.id] = KeyHealth(mark=mark)
            self._stale.discard(profile.id)
        elif not self._of(profile).mark:
            self._state()[profile.id] = msgspec.structs.replace(self._of(profile), mark=mark)
        return profile

    def _renewable(self, ident: str, now: int) -> bool:
        once = 0 <= now - self._fetched.get(ident, -EARLY) < EARLY
        return self._refresh is not None and ident in self._lasting and not once and ident not in self._stale

    async def _renewed(self, profile: KeyProfile, now: int) -> KeyProfile | ModelFailure:
        expired = bool(profile.expires) and now >= profile.expires - EARLY
        if self._refresh is None or not profile.renewal or not (expired or profile.id in self._stale):
            return profile
        async with self._locks.setdefault(profile.id, asyncio.Lock()):
            known = self._fresh.get(profile.id)
            if known is not None and known.secret != profile.secret and _is_later(known, profile):
                return known  # another call has fetched it meanwhile
            try:
                async with asyncio.timeout(REFRESHING):
                    got = await self._refresh(profile)
            except (OSError, TimeoutError, ValueError) as error:
                got = ModelFailure(
                    "auth", f"{profile.provider}: the token could not be renewed ({type(error).__name__})"
                )
            self._fetched[profile.id] = self._clock.now()
            self._stale.discard(profile.id)
            if isinstance(got, ModelFailure):
                if got.kind != "auth" and self._clock.now() < profile.expires:
                    return profile  # the one we have is still good for a moment
                rules = self._rules.get(profile.id, DEFAULT_RULES)
                self._note(
                    profile.id, backoff.record_failure(self._of(profile), got, "", self._clock.now(), rules=rules)
                )
                return got
            return self._adopt(profile, got)

    def _adopt(self, old: KeyProfile, new: KeyProfile) -> KeyProfile:
        self._fresh[old.id] = msgspec.structs.replace(new, id=old.id, provider=old.provider)
        return self._current(self._fresh[old.id])

    # --- memory ------------------------------------------------------------------------------------------------

    def _of(self, profile: KeyProfile) -> KeyHealth:
        return self._state().get(profile.id, KeyHealth())

    def _pin(self, session: str, provider: str, ident: str) -> None:
        self._pins[session, provider] = ident
        self._pins.move_to_end((session, provider))
        if len(self._pins) > SESSIONS:
            self._pins.popitem(last=False)

    def _note(self, ident: str, health: KeyHealth) -> None:
        before = self._state().get(ident, KeyHealth())
        self._state()[ident] = health
        # That a key was used is not worth a write; that it began or ceased to rest is.
        if (before.error_count, before.cooldown_until) != (health.error_count, health.cooldown_until):
            self._save()
            self.tell(ident, health)

    def hear(self, ident: str, health: KeyHealth) -> None:
        """How a key did elsewhere; of two words about it the later counts."""
        known = self._state().get(ident, KeyHealth())
        later = max(health.failed_at, health.last_used) > max(known.failed_at, known.last_used)
        if later and known.mark in (health.mark, ""):
            self._state()[ident] = health

    def _state(self) -> dict[str, KeyHealth]:
        if self._health is None:
            self._health = _read(self._file)
        return self._health

    def _save(self) -> None:
        if not self._file:
            return
        try:
            write_whole_file(self._file, msgspec.json.encode(_State(usageStats=self._state())), sync=False)
        except OSError as error:
            log.warning("%s cannot be written (%s); resting keys are remembered in memory only", FILE, error.strerror)


def _is_later(one: KeyProfile, other: KeyProfile) -> bool:
    return (one.since, one.expires) >= (other.since, other.expires)


def make_cooldown_rules(auth: AuthSettings, provider: str) -> CooldownRules:
    """auth.cooldowns for one provider."""
    billing = auth.billing_by_provider.get(provider, auth.billing_hours)
    return CooldownRules(
        int(billing * backoff.HOUR),
        min(int(max(auth.billing_most_hours, billing) * backoff.HOUR), backoff.LONGEST_REST),
        int(auth.window_hours * backoff.HOUR),
        refused=int((auth.refused_minutes or 0) * backoff.MINUTE),
        refused_most=min(int(auth.refused_most_minutes * backoff.MINUTE), backoff.LONGEST_REST),
    )


def _read(file: str) -> dict[str, KeyHealth]:
    """What the file says; nothing at all when it is missing or broken."""
    try:
        with open(file, "rb") as handle:
            return msgspec.json.decode(handle.read(1_000_000), type=_State).usageStats
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}
