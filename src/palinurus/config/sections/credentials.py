"""auth: several keys per provider, their order, how long a key rests. budgets: what may be spent."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec

from palinurus.config.declare import Section, option
from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import Amount, Lower, MillisOrNone, Names, OptionalSecret, Size
from palinurus.config.kinds import Written
from palinurus.config.secrets import Secret

Hours = Annotated[float, Written(Amount, lambda hours: float(hours) or msgspec.UNSET)]  # 0: the usual


class AuthProfileSettings(Section, frozen=True):
    """auth.profiles.<id>. Without a key it stands for an entry of auth-profiles.json."""

    ABOUT: ClassVar = """
        key The key itself.
        provider Whose key it is.
        mode How it is used: api_key, oauth, token or aws-sdk.
    """
    id: str = option(at=".")
    provider: Lower = option()
    mode: Literal["api_key", "oauth", "token", "aws-sdk"] = "api_key"
    key: OptionalSecret = Secret()


class AuthSettings(Section, frozen=True):
    """auth: the keys of each provider, which comes first, and how long one rests."""

    ABOUT: ClassVar = """
        cooldowns.billingBackoffHours How long a key without credit rests.
        cooldowns.billingBackoffHoursByProvider How long a key without credit rests, by provider.
        cooldowns.billingMaxHours The longest such rest.
        cooldowns.failureWindowHours For how long failures are counted together.
    """
    profiles: dict[str, AuthProfileSettings] = option(
        {}, "Keys by name: provider, mode and key (or the same name in auth-profiles.json)."
    )
    order: dict[str, Names] = option({}, "Which profiles a provider uses, in this order.")
    keyring: bool = option(
        True, "Tokens of sign-ins go into the keyring of the operating system where there is one; false: a file (0600)."
    )
    billing_hours: Hours = option(5.0, at="cooldowns.billingBackoffHours")
    billing_by_provider: dict[str, Hours] = option({}, at="cooldowns.billingBackoffHoursByProvider")
    billing_most_hours: Hours = option(24.0, at="cooldowns.billingMaxHours")
    window_hours: Hours = option(24.0, at="cooldowns.failureWindowHours")
    refused_minutes: Amount | None = option(
        None,
        "How long a refused key rests at first; by default as after any failure.",
        "cooldowns.authPermanentBackoffMinutes",
    )
    refused_most_minutes: Amount = option(60.0, "How long it rests at most.", "cooldowns.authPermanentMaxMinutes")
    overloaded: Size = option(
        1, "Other keys that are tried when the provider is overloaded.", "cooldowns.overloadedProfileRotations"
    )
    overloaded_wait: MillisOrNone = option(
        0.0, "How long is waited before each of them.", "cooldowns.overloadedBackoffMs"
    )
    rate_limited: Size = option(
        1, "Other keys that are tried after a rate limit.", "cooldowns.rateLimitedProfileRotations"
    )

    GROUPS: ClassVar = {"cooldowns": "How long keys rest after a billing failure, and when failures are forgotten."}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        for ident, profile in self.profiles.items():
            if not profile.provider:
                here.below("profiles", ident).odd("provider", "names no provider", "such as anthropic")
        profiles = {ident: profile for ident, profile in self.profiles.items() if profile.provider}
        for provider, idents in self.order.items():
            for at, ident in enumerate(idents):
                found = profiles.get(ident)
                if found is not None and found.provider != provider.strip().lower():
                    here.below("order", provider, at).odd("", f"this profile belongs to {found.provider!r}")
        return msgspec.structs.replace(
            self,
            profiles=profiles,
            order={provider.strip().lower(): idents for provider, idents in self.order.items()},
            billing_by_provider={name.lower(): hours for name, hours in self.billing_by_provider.items()},
        )


class BudgetLimitSettings(Section, frozen=True):
    """At `soft…` the person is told once; at `hard…` no model is asked any more. None: no limit. Tokens of every sort
    together."""

    ABOUT: ClassVar = """
        softUsd From here on it is said, once.
        hardUsd From here on nothing is asked.
        softTokens From here on it is said, once.
        hardTokens From here on nothing is asked.
    """
    soft_usd: Amount | None = None
    hard_usd: Amount | None = option(None, closed=0)
    soft_tokens: Size | None = None
    hard_tokens: Size | None = option(None, closed=0)

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        pairs = (("softUsd", self.soft_usd, self.hard_usd), ("softTokens", self.soft_tokens, self.hard_tokens))
        for name, soft, hard in pairs:
            if soft is not None and hard is not None and soft > hard:
                here.odd(name, "the warning would come after the stop", "make it smaller")
        return self


class BudgetSettings(Section, frozen=True):
    """budgets. Ours; OpenClaw has no such section."""

    day: BudgetLimitSettings = option(BudgetLimitSettings(), "Everything together, per calendar day.")
    session: BudgetLimitSettings = option(
        BudgetLimitSettings(), "One conversation and its sub-agents, until it is reset."
    )
    agent: BudgetLimitSettings = option(BudgetLimitSettings(), "Each agent, per calendar day.")
    agents: dict[str, BudgetLimitSettings] = option({}, "Limits of single agents per calendar day, by id.")

    def check_agents(self, agents: Collection[str], here: ConfigPlace) -> None:
        """An agent that does not exist is a finding."""
        for name in self.agents:
            if name not in agents:
                here.below("budgets", "agents", name).odd("", "there is no such agent", suggest_nearest(name, agents))
