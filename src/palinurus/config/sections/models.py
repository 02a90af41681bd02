"""models: the providers and their models. Names are OpenClaw's."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import msgspec

from palinurus.config.declare import Section, Unfilled, option, same_form
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import Amount, Count, Free, Name, OptionalSecret, RevealedSecret, Size
from palinurus.config.kinds import Written
from palinurus.config.secrets import Secret
from palinurus.patterns import compile_late

Api: TypeAlias = Literal[
    "openai-completions",
    "openai-responses",
    "openai-codex-responses",
    "openai-chatgpt-responses",
    "azure-openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "google-vertex",
    "github-copilot",
    "bedrock-converse-stream",
    "ollama",
]
_VEILED = frozenset({"headers", "env", "params", "model_params", "compat"})
_PROVIDER = compile_late(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_URL = compile_late(r"https?://[^\s/]", re.IGNORECASE)


class VeiledSection(Section, frozen=True):
    """Prints without what may hold secrets in plain text: headers, child environments, request parameters."""

    def __repr__(self) -> str:
        shown = ((name, getattr(self, name)) for name in self.__struct_fields__)
        inside = ", ".join(f"{name}={_count(value) if name in _VEILED else repr(value)}" for name, value in shown)
        return f"{type(self).__name__}({inside})"

    __str__ = __repr__


def _count(value: Any) -> str:
    return f"<{len(value)} hidden>" if value else "{}"


class ModelCostSection(Section, frozen=True):
    """Dollars for a million tokens."""

    ABOUT: ClassVar = """
        input Dollars for a million tokens that are sent.
        output Dollars for a million tokens that come back.
        cacheRead Dollars for a million tokens that the cache held.
        cacheWrite Dollars for a million tokens that are put into it.
    """
    KNOWN: ClassVar = same_form(Amount, "input output cacheRead cacheWrite")


class ModelSettings(VeiledSection, frozen=True):
    """models.providers.<id>.models[] — None means: take the vendor's word."""

    ABOUT: ClassVar = """
        agentRuntime.id The program that does runs with this model (docs/runtimes.md).
        cost What it costs.
        id Its name at the provider.
        name Its name for people.
        api The protocol that it speaks, if not the provider's.
        reasoning Whether it thinks.
        input What it takes: text, image.
        contextWindow How many tokens fit.
        maxTokens How many it answers with at most.
        headers Headers that are sent along.
        compat What is special about it (docs/adding.md).
        params Parameters that it is asked with.
    """
    id: Name
    name: str = ""
    api: Annotated[str, Written(Api, str)] = ""
    reasoning: bool | None = None
    input: tuple[Literal["text", "image", "audio", "video", "document"], ...] | None = None
    cost: Annotated[dict[str, float] | None, Unfilled(ModelCostSection)] = None
    context_window: Count | None = None
    context_tokens: Count | None = option(None, "How much of its window is used, where that is less.")
    max_tokens: Count | None = None
    headers: dict[str, str] = {}
    compat: Free = {}
    params: Free = {}
    runtime: str = option("", at="agentRuntime.id")

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        if self.cost is None:
            return self
        told = {name: self.cost.get(name) for name in ModelCostSection.KNOWN}
        return msgspec.structs.replace(self, cost={name: float(one) for name, one in told.items() if one is not None})


class ProviderSignInSettings(Section, frozen=True):
    """models.providers.<id>.signIn. Ours: where one signs in, if not where the vendor's facts say."""

    ABOUT: ClassVar = """
        clientId The name of the program that signs in, as registered there.
        clientSecret What was given with that name, if anything was.
        tokenUrl Where tokens are fetched and renewed.
        authorizeUrl The page that the browser is sent to.
        deviceUrl Where a code for another device is fetched.
        pollUrl Where a device asks whether its code was typed, if not at tokenUrl.
        verifyUrl The page on which such a code is typed.
        exchangeUrl Where the token is traded for one that lives for minutes.
        revokeUrl Where signing out is told.
        scope What is asked for, words apart by blanks.
    """
    client_id: str = ""
    client_secret: OptionalSecret = Secret()
    token_url: str = ""
    authorize_url: str = ""
    device_url: str = ""
    poll_url: str = ""
    verify_url: str = ""
    exchange_url: str = ""
    revoke_url: str = ""
    scope: str = ""

    def list_said(self) -> dict[str, str]:
        """What was written, by field."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        plain = ((name, value.reveal() if isinstance(value, Secret) else value) for name, value in values)
        return {name: value for name, value in plain if value}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        for key in ("tokenUrl", "authorizeUrl", "deviceUrl", "pollUrl", "exchangeUrl", "revokeUrl"):
            if raw.get(key) and not _URL.match(str(raw[key])):
                here.odd(key, "must start with https:// (or http:// on this machine)")
        return self


class ProviderSettings(VeiledSection, frozen=True):
    """models.providers.<id>"""

    ABOUT: ClassVar = """
        agentRuntime.id The program that does runs with its models (docs/runtimes.md).
        apiKey Its key.
        baseUrl Its address.
        api The protocol that it speaks, such as openai-completions or anthropic-messages.
        headers Headers that are sent along.
        models Its models.
        timeoutSeconds How long it may say nothing; 0 is no limit.
        authHeader false: the key is not sent as an Authorization header.
        params Parameters that all its models are asked with.
        contextWindow How many tokens fit into its models, where they do not say it.
        maxTokens How many they answer with at most.
    """
    id: str = option(at=".")
    base_url: Annotated[str, Written(str, lambda text: text.strip().rstrip("/"))] = option("", closed="unreadable")
    api: Annotated[str, Written(Api, str)] = ""
    api_key: OptionalSecret = Secret()
    headers: dict[str, RevealedSecret] = {}
    models: tuple[ModelSettings, ...] = ()
    timeout: Annotated[float | None, Written(Size, lambda seconds: float(seconds) or None)] = option(
        None, at="timeoutSeconds"
    )
    auth_header: bool | None = None  # send the key as `Authorization: Bearer` whatever the wire's habit
    params: Free = {}
    runtime: str = option("", at="agentRuntime.id")
    sign_in: ProviderSignInSettings = option(
        ProviderSignInSettings(), "Where one signs in with `pal models login`, if not at the vendor's usual place."
    )

    KNOWN: ClassVar = {
        **same_form(Count, "contextWindow maxTokens"),
        "contextTokens": Annotated[Count, "How much of their windows models use that do not say it themselves."],
    }

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        if not _PROVIDER.fullmatch(self.id):
            here.bad("", "a provider id is letters, digits, '.', '-' and '_', 64 at most")
        if self.base_url and not _URL.match(self.base_url):
            here.bad("baseUrl", "must start with http:// or https://", "such as http://127.0.0.1:11434/v1")
        names = [model.id for model in self.models]
        for index, name in enumerate(names):
            if name in names[:index]:
                here.below("models", index).odd("id", "this model is listed twice")
        window, most, used = (raw.get(name) for name in ("contextWindow", "maxTokens", "contextTokens"))
        models = tuple(
            msgspec.structs.replace(
                model,
                context_window=model.context_window or window,
                max_tokens=model.max_tokens or most,
                context_tokens=model.context_tokens or used,
            )
            for model in self.models
        )
        return msgspec.structs.replace(self, models=models)


class ModelsSection(Section, frozen=True):
    providers: dict[str, ProviderSettings] = option({}, "Providers by id: baseUrl, api, apiKey, models.")

    pricing: bool = option(True, "false: only prices that the config says itself count.", "pricing.enabled")
    mode: Literal["merge", "replace"] = option(
        "merge", "merge adds to the built-in providers, replace uses only these.", closed="replace"
    )
