"""models: the providers and their models. Names are OpenClaw's."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from palinurus.config.schema.words import Amount, ConfigSection, Count, Free, SecretText, Size

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
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class ModelCostSection(ConfigSection, frozen=True):
    """Dollars for a million tokens."""

    input: Amount | None = None
    output: Amount | None = None
    cache_read: Amount | None = None
    cache_write: Amount | None = None
    tiered_pricing: list[Free] | None = None


class ModelSection(ConfigSection, frozen=True):
    """models.providers.<id>.models[]"""

    id: Name
    name: str | None = None
    api: Api | None = None
    base_url: str | None = None
    reasoning: bool | None = None
    input: list[Literal["text", "image", "audio", "video", "document"]] | None = None
    cost: ModelCostSection | None = None
    context_window: Count | None = None
    context_tokens: Count | None = None
    max_tokens: Count | None = None
    headers: dict[str, str] | None = None
    compat: Free | None = None
    params: Free | None = None
    thinking_level_map: Free | None = None
    agent_runtime: Free | None = None
    media_input: Free | None = None


class ProviderSection(ConfigSection, frozen=True):
    """models.providers.<id>"""

    base_url: str | None = None
    api_key: SecretText | None = None
    auth: Literal["api-key", "aws-sdk", "oauth", "token"] | None = None
    api: Api | None = None
    headers: dict[str, SecretText] | None = None
    auth_header: bool | None = None
    models: list[ModelSection] | None = None
    timeout_seconds: Size | None = None
    region: str | None = None
    params: Free | None = None
    request: Free | None = None
    context_window: Count | None = None
    context_tokens: Count | None = None
    max_tokens: Count | None = None
    inject_num_ctx_for_open_ai_compat: bool | None = msgspec.field(default=None, name="injectNumCtxForOpenAICompat")
    local_service: Free | None = None
    agent_runtime: Free | None = None


class ModelsSection(ConfigSection, frozen=True):
    mode: Literal["merge", "replace"] | None = None
    providers: dict[str, ProviderSection] | None = None
    pricing: Free | None = None
    bedrock_discovery: Free | None = None
    proxy: str | None = None
