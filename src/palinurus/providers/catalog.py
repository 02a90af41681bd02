"""Which models there are, and what is known about each: vendor facts, then config, then the agent's parameters.

Resolved once per message into a frozen `ModelSpec`. Knows no network; what a probe found is handed in.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import AgentSettings, Secret, Settings
from palinurus.core.types.keys import ModelRef, parse_model_ref
from palinurus.core.types.model import ModelFailure, ModelSpec, TokenPrice
from palinurus.core.types.signin import SignInRow
from palinurus.core.types.vendor import WINDOW, Vendor, VendorModel
from palinurus.late import load_part
from palinurus.providers import FALLBACK_VENDORS, VENDORS, load_row
from palinurus.providers.address import is_local_url
from palinurus.providers.credentials import KeyProfile, find_key, find_signer, gather_profiles, load_stored
from palinurus.providers.local.weights import list_pulled
from palinurus.providers.prices import find_price
from palinurus.providers.signin.vault import KeptSignIn, SignInVault, make_profile, refuse_profile

DEMO_REF = ModelRef("builtin", "demo")
DEFAULT_API = "openai-completions"


class Catalog:
    """`find` a model by what a person wrote; `default` when nobody wrote anything."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], *, ollama: Iterable[str] = ()) -> None:
        self.settings = settings
        self.environ = environ
        self.ollama = tuple(ollama)  # models a probe found
        self.windows: Mapping[str, int] = {}  # how many tokens each of those takes, as far as it said
        self.vendors: Mapping[str, Vendor] = {}  # of plugins
        self._vendors: dict[str, Vendor | None] = {}
        self._stored: tuple[KeyProfile, ...] | None = None
        self.vault = SignInVault(
            settings.home, environ, keyring=settings.auth.keyring, several=bool(settings.store.url)
        )
        self._found: dict[tuple[str, str], ModelSpec | ModelFailure] = {}

    # --- finding -----------------------------------------------------------------------------------------------

    def find(self, text: str, agent: AgentSettings) -> ModelSpec | ModelFailure:
        """The model of a ref, an alias, or an id that only one provider has. Fails with config or not_found."""
        key = (text, agent.id)
        found = self._found.get(key)
        if found is None:
            found = self._find(text.strip(), agent)
            if len(self._found) < 1000:
                self._found[key] = found
        return found

    def default(self, agent: AgentSettings) -> ModelSpec:
        """Configured; else the first vendor whose key is in the environment (credentials to sign with are there for
        other things too and do not count); else Ollama; else the demo.

        A configured model that is no longer there gives way to the first one the config lists; if it lists none,
        the model is returned without an API: asking it fails with the reason.
        """
        if not agent.model:
            return self._info(self._fallback(), agent)
        found = self.find(agent.model, agent)
        if isinstance(found, ModelSpec):
            return found
        listed = self._configured()
        if listed:
            return self._info(listed[0], agent)
        return ModelSpec(ModelRef("", agent.model), "", name=agent.model)

    def explain_missing(self, agent: AgentSettings) -> str:
        """Why the configured model is not the one that is used; "" if it is."""
        found = self.find(agent.model, agent) if agent.model else None
        return found.message if isinstance(found, ModelFailure) else ""

    def chain(self, asked: str, agent: AgentSettings, *, strict: bool = False) -> tuple[ModelSpec, ...] | ModelFailure:
        """The model to ask and those to fall back on, each once; why there is none, for one asked for by name.

        `strict`: a person chose exactly this model, so no other answers in its place.
        """
        found = self.find(asked, agent) if asked else self.default(agent)
        if isinstance(found, ModelFailure) or strict:
            return found if isinstance(found, ModelFailure) else (found,)
        others = [self.find(text, agent) for text in agent.fallbacks]
        if agent.fallbacks and asked:
            others.append(self.default(agent))  # a model that was asked for by name ends where everyone begins
        models = {m.ref: m for m in (found, *others) if isinstance(m, ModelSpec) and m.api}
        return tuple(models.values()) or (found,)

    def wants_probe(self, agent: AgentSettings) -> bool:
        """True when a local Ollama would become the default if one were running."""
        return not agent.model and self._fallback() == DEMO_REF and not self.ollama

    def all(self, agent: AgentSettings | None = None) -> list[ModelSpec]:
        """Every model that is known and could be used: configured ones first, then those of vendors with a key."""
        agent = agent or self.settings.agents[self.settings.default_agent]
        ready = [name for name in self.list_vendors() if name == DEMO_REF.provider or self.key_source(name)]
        home = None if self.settings.only_listed else self.settings.home
        pulled = (ModelRef("local", name) for name in (list_pulled(home) if home else ()))
        return [self._info(ref, agent) for ref in dict.fromkeys((*self._every(ready), *pulled))]

    # --- facts about providers ---------------------------------------------------------------------------------

    def vendor(self, provider: str) -> Vendor | None:
        """The vendor's file, or None for a provider that exists in the config only."""
        if provider not in self._vendors:
            self._vendors[provider] = load_row(VENDORS, provider) or self.vendors.get(provider)
        return self._vendors[provider]

    def rules(self, provider: str) -> Vendor:
        """The vendor's file, or what goes for a provider that exists in the config only."""
        made: Vendor = self.vendor(provider) or load_row(FALLBACK_VENDORS, "custom")
        return made

    def provider(self, provider: str) -> ProviderSettings | None:
        """The provider's part of the config."""
        return self.settings.providers.get(provider)

    def key(self, info: ModelSpec) -> Secret | ModelFailure:
        """The API key for this model's provider."""
        name = info.ref.provider
        ended = next((kept.out for kept in self.vault.list_all().values() if kept.provider == name and kept.out), "")
        if ended and not self.profiles(name):
            return refuse_profile(name, ended)
        return find_key(name, self.provider(name), self.vendor(name), self.environ, local=is_local_url(info.base_url))

    def profiles(self, provider: str) -> tuple[KeyProfile, ...]:
        """All keys of a provider, as far as auth.order decides in order."""
        if self._stored is None:
            self._stored = load_stored(self.settings.home, self.settings.default_agent)
        stored = self._stored
        if signed := self.vault.list_all():  # goes before what was brought over under the same name
            kept = (make_profile(ident, one) for ident, one in signed.items() if not one.out)
            stored = (*kept, *(one for one in stored if one.id not in signed))
        return gather_profiles(provider, self.settings, self.vendor(provider), self.environ, stored=stored)

    def find_signin(self, provider: str, kept: KeptSignIn | None = None) -> SignInRow:
        """How one signs in there; a row without addresses where one cannot."""
        vendor = self.vendor(provider)
        row = vendor.signin if vendor is not None else None
        made: SignInRow = load_part("signin-row")(row, self.provider(provider), kept)
        return made

    def key_source(self, provider: str) -> str:
        """Where the first key comes from: "config", a variable's name, auth.profiles.…, or "" for none."""
        vendor = self.vendor(provider)
        signing = vendor.signing if vendor is not None and find_signer(vendor, self.environ) else None
        return next((profile.source for profile in self.profiles(provider)), signing.access if signing else "")

    def explain_missing_key(self, info: ModelSpec) -> str:
        """What a call would fail with before it is made; "" where there is a key, or none is needed."""
        found = Secret() if not info.api or self.key_source(info.ref.provider) else self.key(info)
        return found.message if isinstance(found, ModelFailure) else ""

    # --- inside ------------------------------------------------------------------------------------------------

    def _find(self, text: str, agent: AgentSettings) -> ModelSpec | ModelFailure:
        if not text:
            return ModelFailure("config", "no model named")
        text = self._alias(text, agent)
        ref = parse_model_ref(text)
        if ref is not None:
            provider = self.find_provider(ref.provider)
            if provider:
                return self._known(ModelRef(provider, ref.model), agent)
        matches = self._by_id(text)
        if len(matches) == 1:
            return self._info(matches[0], agent)
        home = self._at_home(text, agent, matches)
        if home is not None:
            return self._known(home, agent)
        if matches:
            choices = ", ".join(str(m) for m in matches[:6])
            return ModelFailure("config", f"model {text!r} is offered by several providers: write one of {choices}")
        if ref is not None:
            hint = _close(ref.provider, [*self.settings.providers, *self.list_vendors()], 0.7)
            return ModelFailure("config", f"unknown provider {ref.provider!r}{_meant(hint and f'{hint}/{ref.model}')}")
        every = self._every(self.list_vendors())
        names = [*agent.aliases, *(str(ref) for ref in every), *(ref.model for ref in every)]
        return ModelFailure("not_found", f"unknown model {text!r}{_meant(_close(text, names))}")

    def _at_home(self, text: str, agent: AgentSettings, matches: list[ModelRef]) -> ModelRef | None:
        """The bare id taken as one of the default model's provider; None when that cannot be meant."""
        default = parse_model_ref(self._alias(agent.model, agent))
        provider = self.find_provider(default.provider) if default is not None else ""
        if not provider or "/" in text or (matches and all(m.provider != provider for m in matches)):
            return None
        return ModelRef(provider, next((m.model for m in matches if m.provider == provider), text))

    def _known(self, ref: ModelRef, agent: AgentSettings) -> ModelSpec | ModelFailure:
        """Vendors add models faster than files change, so theirs are taken as written; a listed provider's not."""
        settings = self.provider(ref.provider)
        listed = [m.id for m in settings.models] if settings else []
        own = self.settings.only_listed or self.vendor(ref.provider) is None
        closed = ref.provider == DEMO_REF.provider or (own and listed)
        if closed and ref.model not in (listed or [DEMO_REF.model]):
            hint = _close(ref.model, listed or [DEMO_REF.model])
            return ModelFailure(
                "not_found", f"{ref.provider} has no model {ref.model!r}{_meant(hint and f'{ref.provider}/{hint}')}"
            )
        return self._info(ref, agent)

    def _alias(self, text: str, agent: AgentSettings) -> str:
        low = text.strip().lower()
        return next((target for name, target in agent.aliases.items() if name.lower() == low), text)

    def find_provider(self, name: str) -> str:
        """The id as tables know it, or ""."""
        if name in self.settings.providers or name in self.list_vendors():
            return name
        for ident in self.settings.providers:
            if ident.lower() == name:
                return ident
        for ident in self.list_vendors():
            vendor = self.vendor(ident)
            if vendor is not None and name in vendor.aliases:
                return ident
        return ""

    def list_vendors(self) -> tuple[str, ...]:
        """Every provider that has a file of facts, unless only those of the config count."""
        return () if self.settings.only_listed else (*VENDORS, *self.vendors)

    def _configured(self) -> list[ModelRef]:
        return [ModelRef(p.id, m.id) for p in self.settings.providers.values() for m in p.models]

    def _every(self, names: Iterable[str]) -> list[ModelRef]:
        """Configured, whatever the files of these vendors list, and what Ollama has."""
        vendors = [(name, self.vendor(name)) for name in names]
        listed = [ModelRef(name, model.id) for name, vendor in vendors if vendor for model in vendor.models]
        probed = () if self.settings.only_listed else self.ollama
        return list(dict.fromkeys((*self._configured(), *listed, *(ModelRef("ollama", m) for m in probed))))

    def _by_id(self, text: str) -> list[ModelRef]:
        """Who has this id: among what is configured; else among vendors with a key; else among all."""
        low = text.lower()
        configured = [r for r in self._configured() if r.model.lower() == low]
        if configured:
            return configured
        every = [r for r in self._every(self.list_vendors()) if r.model.lower() == low]
        return [r for r in every if self.key_source(r.provider)] or every

    def _fallback(self) -> ModelRef:
        configured = self._configured()
        if configured:
            return configured[0]
        for name in self.list_vendors():
            vendor = self.vendor(name)
            if vendor is not None and vendor.models and not vendor.keyless and self.profiles(name):
                return ModelRef(name, vendor.models[0].id)
        return ModelRef("ollama", self.ollama[0]) if self.ollama else DEMO_REF

    def _info(self, ref: ModelRef, agent: AgentSettings) -> ModelSpec:
        vendor, settings = self.vendor(ref.provider), self.provider(ref.provider)
        known = next((m for m in vendor.models if m.id == ref.model), None) if vendor else None
        listed = next((m for m in settings.models if m.id == ref.model), None) if settings else None
        reasoning: bool | None = known.reasoning if known is not None else None
        if known is None:
            reasoning = vendor.reasons(ref.model) if vendor is not None and vendor.reasons is not None else None
            told = self.windows.get(ref.model) if ref.model in self.ollama else None
            known = VendorModel(ref.model, name=ref.model, context_window=told or (vendor.window if vendor else WINDOW))
        info = ModelSpec(
            ref=ref,
            api=(listed and listed.api) or (settings and settings.api) or (vendor.api if vendor else DEFAULT_API),
            base_url=((settings and settings.base_url) or (vendor.base_url if vendor else "")).rstrip("/"),
            name=known.name or ref.model,
            reasoning=reasoning,
            vision=known.vision,
            tools=known.tools,
            context_window=known.context_window,
            max_tokens=known.max_tokens,
            price=(known.price or find_price(ref)) if self.settings.pricing else None,
            headers=dict(settings.headers) if settings else {},
            compat=dict(known.compat),
            params=_params(agent, ref, listed, settings),
            timeout=settings.timeout if settings else None,
        )
        return _overlaid(info, listed) if listed else info


def _params(
    agent: AgentSettings, ref: ModelRef, model: ModelSettings | None, provider: ProviderSettings | None
) -> dict[str, Any]:
    """From the general to the particular: the provider's, the model's, the agent's, the agent's for this model."""
    own = agent.model_params.get(str(ref))
    if own is None:
        own = next((params for name, params in agent.model_params.items() if parse_model_ref(name) == ref), {})
    return {
        **(provider.params if provider else {}),
        **(model.params if model else {}),
        **agent.params,
        **own,
    }


def _overlaid(info: ModelSpec, model: ModelSettings) -> ModelSpec:
    """What the config says about a model wins; what it does not say stays."""
    changes: dict[str, Any] = {
        "name": model.name or info.name,
        "headers": {**info.headers, **model.headers},
        "compat": {**info.compat, **model.compat},
    }
    for field, value in (
        ("reasoning", model.reasoning),
        ("vision", None if model.input is None else "image" in model.input),
        ("context_window", _least(model.context_window or info.context_window, model.context_tokens)),
        ("max_tokens", model.max_tokens),
        ("price", None if model.cost is None else parse_price(model.cost)),
        ("tools", model.compat.get("supportsTools")),
    ):
        if value is not None:
            changes[field] = value
    return msgspec.structs.replace(info, **changes)


def _least(window: int | None, used: int | None) -> int | None:
    return min(window, used) if window and used else used or window


def parse_price(cost: Mapping[str, float]) -> TokenPrice:
    """Dollars per million tokens, from the config's `cost`."""
    given = [float(cost.get(k, 0.0)) for k in ("input", "output", "cacheRead", "cacheWrite")]
    return TokenPrice(given[0], given[1], given[2], given[3])


def _close(text: str, names: Iterable[str], least: float = 0.6) -> str:
    low = {n.lower(): n for n in names}
    found = difflib.get_close_matches(text.lower(), list(low), n=1, cutoff=least)
    return low[found[0]] if found else ""


def _meant(hint: str) -> str:
    return f"; did you mean {hint!r}?" if hint else "; `pal models` lists what there is"
