"""wizard.*: the first setup as questions that OpenClaw's apps ask one by one. What was answered stands in the name of
the next question, so nothing is kept between two of them: a gateway that was killed goes on with it.
"""

from __future__ import annotations

import uuid
from typing import Any

from palinurus.gateway.methods import setup
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams

KEY = "key:"  # and the provider whose key is asked for


class WizardStartParams(MethodParams, frozen=True):
    mode: str = "local"
    workspace: str = ""


class WizardAnswer(MethodParams, frozen=True):
    step_id: NonEmpty
    value: Any = None


class WizardNextParams(MethodParams, frozen=True):
    session_id: NonEmpty
    answer: WizardAnswer | None = None


class WizardSessionParams(MethodParams, frozen=True):
    session_id: NonEmpty


async def start_wizard(call: MethodCall, asked: WizardStartParams) -> dict[str, Any]:
    """Which vendor of models?"""
    return {"sessionId": uuid.uuid4().hex, **await _ask_provider(call)}


async def _ask_provider(call: MethodCall) -> dict[str, Any]:
    found = await setup.get_setup_status(call, NoParams())
    known = [{"value": one["id"], "label": one["name"], "hint": one["source"] or ""} for one in found["providers"]]
    running = [{"value": found["local"]["provider"], "label": found["local"]["name"], "hint": "runs on this machine"}]
    step = {"id": "provider", "type": "select", "title": "Model", "message": f"Who answers? Now: {found['model']}"}
    options = [*(running if found["local"]["models"] else []), *known]
    return _go_on({**step, "options": options, "executor": "client"})


def _go_on(step: dict[str, Any]) -> dict[str, Any]:
    return {"done": False, "status": "running", "step": step}


async def answer_wizard(call: MethodCall, asked: WizardNextParams) -> dict[str, Any]:
    """The next question, or that it is over: what was chosen answered one word, and is in the config."""
    answer = asked.answer
    if answer is None:
        return await _ask_provider(call)
    if not answer.step_id.startswith(KEY):
        found = await setup.get_setup_status(call, NoParams())
        sources = {one["id"]: one["source"] for one in found["providers"]} | {found["local"]["provider"]: "local"}
        provider = str(answer.value or "")
        if provider not in sources:
            raise MethodError(f"there is no provider {provider[:60]!r} among the options")
        return await _finish(call, provider, "") if sources[provider] else _ask_key(provider, "Its API key")
    return await _finish(call, answer.step_id.removeprefix(KEY), str(answer.value or "").strip())


def _ask_key(provider: str, message: str) -> dict[str, Any]:
    step = {"id": f"{KEY}{provider}", "type": "text", "title": provider, "message": message, "sensitive": True}
    return _go_on({**step, "executor": "client"})


async def _finish(call: MethodCall, provider: str, key: str) -> dict[str, Any]:
    choice = setup.SetupChoiceParams(provider=provider, key=key)
    tried = await setup.try_setup(call, choice)
    if not tried["ok"]:
        return _ask_key(provider, f"It does not answer: {tried['problem']}. Another key?")
    await setup.apply_setup(call, choice)
    return {"done": True, "status": "done"}


async def cancel_wizard(call: MethodCall, asked: WizardSessionParams) -> dict[str, Any]:
    """Nothing was written before the last answer."""
    return {"status": "cancelled"}


async def get_wizard_status(call: MethodCall, asked: WizardSessionParams) -> dict[str, Any]:
    return {"status": "running"}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("wizard.start", ADMIN, WizardStartParams, start_wizard),
    GatewayMethod("wizard.next", ADMIN, WizardNextParams, answer_wizard, write=True),
    GatewayMethod("wizard.cancel", ADMIN, WizardSessionParams, cancel_wizard),
    GatewayMethod("wizard.status", ADMIN, WizardSessionParams, get_wizard_status),
)
