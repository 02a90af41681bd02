"""Which commands of a node may be called, and which node is meant."""

from __future__ import annotations

import pytest

from palinurus.core.policy.nodes import (
    NodeRules,
    choose_node,
    choose_runner,
    classify_platform,
    explain_refused_command,
    list_approver_scopes,
    list_callable,
)
from palinurus.core.types.node import NodeView
from palinurus.errors import BadRequest, NotFound


@pytest.mark.parametrize(
    ("platform", "kind"),
    [("linux", "linux"), ("Darwin", "macos"), ("ios 19.1", "ios"), ("iPadOS", "ios"), ("win32", "windows"), ("x", "")],
)
def test_platforms(platform: str, kind: str) -> None:
    assert classify_platform(platform) == kind


def test_three_must_agree() -> None:
    offered = ("system.run", "system.which", "camera.snap", "system.notify")
    agreed = ("system.run", "camera.snap")
    assert list_callable(offered, agreed, "linux", NodeRules()) == ["system.run"]
    assert list_callable(offered, agreed, "linux", NodeRules(("camera.snap",))) == ["system.run", "camera.snap"]
    assert list_callable(offered, agreed, "linux", NodeRules(("camera.snap",), ("*",))) == []
    assert list_callable(("system.notify",), agreed, "linux", NodeRules()) == []


@pytest.mark.parametrize("command", ["camera.snap", "camera.clip", "screen.record", "sms.send", "contacts.add"])
@pytest.mark.parametrize("platform", ["linux", "macos", "windows", "ios", "android", "unheard-of"])
def test_what_touches_people_needs_a_word_in_the_config(platform: str, command: str) -> None:
    assert explain_refused_command(command, platform, NodeRules())
    assert not explain_refused_command(command, platform, NodeRules((command,)))


@pytest.mark.parametrize("platform", ["ios", "android", "unheard-of", ""])
def test_programs_start_only_where_that_is_usual(platform: str) -> None:
    assert explain_refused_command("system.run", platform, NodeRules())


def test_who_may_approve() -> None:
    assert list_approver_scopes(()) == ("operator.pairing",)
    assert list_approver_scopes(("system.notify",)) == ("operator.pairing", "operator.write")
    assert list_approver_scopes(("system.notify", "system.which")) == ("operator.pairing", "operator.admin")


def view(ident: str, name: str = "", *commands: str, connected: bool = True) -> NodeView:
    return NodeView(ident, name, "linux", commands, paired=True, connected=connected)


def test_a_node_by_id_beginning_or_name() -> None:
    nodes = [view("abcd1", "Shed"), view("abcd2", "Attic"), view("ffff", "abcd1x")]
    assert choose_node(nodes, "abcd1").name == "Shed" and choose_node(nodes, "attic").id == "abcd2"
    assert choose_node(nodes, "ffff").name == "abcd1x"
    for wanted, kind in (("abcd", BadRequest), ("", NotFound), ("abc", NotFound), ("nobody", NotFound)):
        with pytest.raises(kind):
            choose_node(nodes, wanted)


def test_the_node_for_a_command() -> None:
    able, other = view("a1", "shed", "system.run"), view("b1", "phone", "system.notify")
    gone = view("c1", "attic", "system.run", connected=False)
    assert choose_runner([other, able, gone], "") is able
    for nodes, wanted, words in (
        ([other, gone], "", "no node that runs commands"),
        ([able, view("d1", "barn", "system.run")], "", "several nodes"),
        ([other, able], "phone", "runs no commands"),
        ([gone], "attic", "not connected"),
    ):
        with pytest.raises((BadRequest, NotFound), match=words):
            choose_runner(nodes, wanted)
