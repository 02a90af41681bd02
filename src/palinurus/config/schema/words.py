"""Types that many sections share: bounded numbers, words, a model choice, a secret. Names are OpenClaw's."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from palinurus.config.declare import Section

Free: TypeAlias = dict[str, Any]  # known, but not read yet: anything goes
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Ratio: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Hour: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=23)]

Level: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra"]
Switch: TypeAlias = Literal["on", "off"]
Typing: TypeAlias = Literal["never", "instant", "thinking", "message"]
LogLevel: TypeAlias = Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"]


class ConfigSection(Section, frozen=True, rename="camel"):
    """Base of every section. A key that is absent or null is None: the default applies."""


class SecretRef(ConfigSection, frozen=True):
    """A secret kept elsewhere instead of in the file."""

    source: Literal["env", "file", "exec", "store"]
    id: str
    provider: str = "default"


SecretText: TypeAlias = str | SecretRef


class ModelChoiceSection(ConfigSection, frozen=True):
    primary: str | None = None
    fallbacks: list[str] | None = None
    timeout_ms: Count | None = None


ModelSpec: TypeAlias = str | ModelChoiceSection


class IdentitySection(ConfigSection, frozen=True):
    name: str | None = None
    theme: str | None = None
    emoji: str | None = None
    avatar: str | None = None
    creature: str | None = None
    vibe: str | None = None


class GroupChatSection(ConfigSection, frozen=True):
    mention_patterns: list[str] | None = None
    history_limit: Count | None = None
    visible_replies: str | None = None
    unmentioned_inbound: str | None = None
