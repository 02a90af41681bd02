"""From a message to the question it puts to the policy."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from palinurus.agent.plan.offer import KEPT, ToolOffers
from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.config.load import judge_config
from palinurus.core.policy.layers import ChatPlace, ToolAsker, ToolLists
from palinurus.core.types.inbound import Sender, Target
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord
from palinurus.testing.model import make_model_info
from support import inbound, tool

TOOLS = {name: tool(name) for name in ("read", "exec", "gateway")}


def offers(**raw: Any) -> ToolOffers:
    settings = judge_config(json.dumps(raw), "f", "/h", {"HOME": "/h"}).settings
    assert settings is not None
    return ToolOffers(settings, Catalog(settings, {}), TOOLS)


def question(text: str = "agent:main:main", record: dict[str, Any] | None = None, **message: Any) -> Any:
    key = parse_session_key(text)
    assert key is not None
    made = msgspec.structs.replace(SessionRecord.fresh(key, 0, "id"), **(record or {}))
    return offers().question(key, inbound(**message), make_model_info(), made)


CLIENT = Sender("human", scopes=("operator.write",))


def test_who() -> None:
    asked = question(sender=Sender("7", "Bob", scopes=("operator.admin",)), roles=("r",))
    assert asked.asker == ToolAsker("7", "Bob", True, ("r",))
    assert not question(sender=Sender("7", "Bob", allowed=True)).asker.owner


@pytest.mark.parametrize(
    ("key", "message", "place"),
    [
        ("agent:main:main", {}, ChatPlace("fake", "default", "", "human", True)),
        (
            "agent:main:fake:group:X",
            {"kind": "group", "target": Target("fake", "X", "acc"), "guild": "G"},
            ChatPlace("fake", "acc", "G", "x"),
        ),
        # from the terminal into a group's session: the group's rules
        (
            "agent:main:telegram:group:-5:thread:9",
            {"target": Target("terminal")},
            ChatPlace("telegram", "default", "", "-5"),
        ),
    ],
)
def test_where(key: str, message: dict[str, Any], place: ChatPlace) -> None:
    assert question(key, **message).place == place


def test_depth_and_what_was_inherited() -> None:
    assert question().depth == 0 and question().inherited is None
    assert question("agent:main:subagent:a:subagent:b").depth == 2
    assert question(record={"spawnDepth": 1}).depth == 1
    extra = {"inheritedToolAllow": ["read"], "inheritedToolDeny": ["exec"]}
    assert question(record={"extra": extra}).inherited == ToolLists("the parent's", ("read",), deny=("exec",))
    assert question(record={"extra": {"execSecurity": "deny"}}).exec_denied


def test_the_sandbox() -> None:
    made = offers(agents={"defaults": {"sandbox": {"mode": "non-main"}}})
    for rest, boxed in (("main", False), ("telegram:group:1", True), ("subagent:x", True)):
        key = SessionKey("main", rest)
        asked = made.question(key, inbound(), make_model_info(), SessionRecord.fresh(key, 0, "id"))
        assert asked.sandboxed is boxed


def test_answers_are_kept_and_their_number_is_bounded() -> None:
    made = offers()
    first = made.offer(question(sender=CLIENT))
    assert made.offer(question(sender=CLIENT)) is first and list(first.tools) == ["read", "exec"]
    assert first.hidden == {"gateway": "it is for the owner only"}
    others = [made.offer(question(sender=Sender(str(number)))) for number in range(KEPT + 10)]
    assert len(made._kept) <= KEPT
    assert len({id(other) for other in others[: KEPT - 1]}) == 1  # whoever gets the same shares it: people cost no room
    assert made.offer(question(sender=CLIENT)).specs == first.specs


def test_a_stand_in_is_barred_from_what_its_policy_denies() -> None:
    made = offers(tools={"byProvider": {"weak": {"deny": ["exec"]}}})
    key = SessionKey("main", "main")
    choices = (
        ModelCandidate(make_model_info()),
        ModelCandidate(make_model_info(provider="weak")),
        ModelCandidate(make_model_info(provider="other")),
    )
    offer, fitted = made.fit_choices(choices, key, inbound(sender=CLIENT), SessionRecord.fresh(key, 0, "id"))
    assert list(offer.tools) == ["read", "exec"]
    assert [sorted(choice.barred) for choice in fitted] == [[], ["exec"], []]
