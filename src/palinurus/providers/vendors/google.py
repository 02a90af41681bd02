"""Google: the Gemini and Gemma models through the Gemini API.

Gemini 3 takes words (thinkingLevel), 2.5 takes token budgets (thinkingBudget).
"""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.signin import SignInRow
from palinurus.core.types.vendor import ThinkingProfile, Vendor, make_thinking_model
from palinurus.patterns import compile_late

_PRO = thinking.make_profile(("off", "low", "adaptive", "high"), keep=True)
_FLASH = thinking.make_profile(("off", "minimal", "low", "medium", "adaptive", "high"), keep=True)
_OLDER = thinking.make_profile(("off", "minimal", "low", "medium", "adaptive", "high"))

# First match wins; ids are lower case without the "models/" prefix.
_FAMILIES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (compile_late(pattern), name)
    for pattern, name in (
        (r"gemini-([3-9]|\d{2,})([.\d]*)-(flash|.*-flash).*|gemini-flash(-lite)?-latest", "3-flash"),
        (r"gemini-([3-9]|\d{2,})([.\d]*)-pro.*|gemini-pro-latest", "3-pro"),
        (r"gemini-2\.5-flash-lite.*", "2.5-flash-lite"),
        (r"gemini-2\.5-flash.*", "2.5-flash"),
        (r"gemini-2\.5-pro.*", "2.5-pro"),
        (r"gemma-4.*", "gemma-4"),
    )
)

# thinkingLevel by level. No adaptive row: the word is left out and the model decides.
_WORDS: dict[str, dict[str, str]] = {
    "3-pro": {"off": "LOW", "minimal": "LOW", "low": "LOW", "medium": "HIGH", "high": "HIGH"},
    "3-flash": {"off": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"},
    "gemma-4": {"minimal": "MINIMAL", "low": "MINIMAL", "medium": "HIGH", "high": "HIGH", "adaptive": "HIGH"},
}
# thinkingBudget by level. 2.5 Pro cannot be switched off, so nothing is sent for off.
_BUDGETS: dict[str, dict[str, int]] = {
    "2.5-pro": {"minimal": 128, "low": 2048, "medium": 8192, "high": 32768, "adaptive": -1},
    "2.5-flash": {"off": 0, "minimal": 128, "low": 2048, "medium": 8192, "high": 24576, "adaptive": -1},
    "2.5-flash-lite": {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576, "adaptive": -1},
}
# Where a numeric budget from the config ends and the next word begins, for families that take words.
_STEPS: dict[str, tuple[tuple[int, str], ...]] = {
    "3-pro": ((2048, "LOW"),),
    "3-flash": ((0, "MINIMAL"), (2048, "LOW"), (8192, "MEDIUM")),
}


def parse_gemini_family(model_id: str) -> str:
    """3-pro, 3-flash, 2.5-pro, 2.5-flash, 2.5-flash-lite, gemma-4, or "" for others."""
    name = model_id.strip().lower().rpartition("/")[2]
    return next((word for pattern, word in _FAMILIES if pattern.fullmatch(name)), "")


def resolve_google_profile(model: ModelSpec) -> ThinkingProfile:
    """Gemini 3 Pro knows two efforts and dynamic thinking; the others five and dynamic."""
    return {"3-pro": _PRO, "3-flash": _FLASH}.get(parse_gemini_family(model.ref.model), _OLDER)


def build_thinking_config(request: ModelRequest) -> dict[str, Any] | None:
    """generationConfig.thinkingConfig, or None to leave it out."""
    kind = parse_gemini_family(request.model.ref.model)
    level = "high" if request.level in ("xhigh", "max") else request.level
    on = level not in ("off", "none", "")
    budget = request.model.params.get("thinkingBudget")
    if not isinstance(budget, int) or isinstance(budget, bool):
        budget = thinking.read_budget(request.model, request.level, level) if on else None
    if budget is not None:
        return _numeric(kind, budget)
    if kind in _WORDS:
        word = _WORDS[kind].get(level if on else "off")
        found: dict[str, Any] = {"thinkingLevel": word} if word else {}
        if on:
            found["includeThoughts"] = True
        return found or None
    table = _BUDGETS.get(kind)
    if table is None:
        # An unlisted model that thinks: dynamic thinking is the one setting every generation takes.
        return {"includeThoughts": True, "thinkingBudget": -1} if on and request.model.reasoning is not False else None
    amount = table.get(level if on else "off")
    if amount is None:
        return None
    return {"includeThoughts": True, "thinkingBudget": amount} if on else {"thinkingBudget": amount}


def _numeric(kind: str, budget: int) -> dict[str, Any] | None:
    """A budget given in numbers (params.thinkingBudget)."""
    if kind == "gemma-4":
        return None
    if kind in _STEPS:
        if budget < 0:
            return {"includeThoughts": True}
        word = next((w for top, w in _STEPS[kind] if budget <= top), "HIGH")
        return {"thinkingLevel": word, **({"includeThoughts": True} if budget else {})}
    if budget == 0:
        return None if kind == "2.5-pro" else {"thinkingBudget": 0}
    return {"includeThoughts": True, "thinkingBudget": budget}


def shape_google_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """thinkingConfig."""
    found = build_thinking_config(request)
    if not found:
        return body
    return {**body, "generationConfig": {**body.get("generationConfig", {}), "thinkingConfig": found}}


# Google forbids other programs to use the client of its own one, and offers this: a client of the person's own project.
GOOGLE = SignInRow(
    token_url="https://oauth2.googleapis.com/token",
    authorize_url="https://accounts.google.com/o/oauth2/v2/auth",
    revoke_url="https://oauth2.googleapis.com/revoke",
    scope="https://www.googleapis.com/auth/cloud-platform"
    " https://www.googleapis.com/auth/generative-language.retriever openid email",
    extra={"access_type": "offline", "prompt": "consent"},
    needs_client="Google lets no other program use the sign-in of its Gemini CLI; make an OAuth client of type"
    " `Desktop app` in a project of yours (ai.google.dev/gemini-api/docs/oauth), download its file and give it with"
    " `--client FILE`, or use an API key (`pal models add google`)",
)

VENDOR = Vendor(
    id="google",
    name="Google Gemini",
    api="google-generative-ai",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    auth_header="x-goog-api-key",
    models=(
        make_thinking_model("gemini-3.1-pro-preview", "Gemini 3.1 Pro", 1_048_576, 65_536),
        make_thinking_model("gemini-3-pro-preview", "Gemini 3 Pro", 1_048_576, 65_536),
        make_thinking_model("gemini-3-flash-preview", "Gemini 3 Flash", 1_048_576, 65_536),
        make_thinking_model("gemini-2.5-pro", "Gemini 2.5 Pro", 1_048_576, 65_536),
        make_thinking_model("gemini-2.5-flash", "Gemini 2.5 Flash", 1_048_576, 65_536),
        make_thinking_model("gemini-2.5-flash-lite", "Gemini 2.5 Flash-Lite", 1_048_576, 65_536),
    ),
    profile=resolve_google_profile,
    shape=shape_google_body,
    aliases=("gemini", "google-gemini"),
    reasons=lambda model_id: bool(parse_gemini_family(model_id)),
    signin=GOOGLE,
)
