"""Where sections speak of group chats, and lists that have a name."""

from __future__ import annotations

from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.sections.channels import GroupSettings, resolve_accounts
from palinurus.config.sections.people import AccessGroups

EVERY = ("*",)


def made(channel: str, section: dict[str, object]) -> tuple[dict[str, GroupSettings], list[ConfigFinding]]:
    findings: list[ConfigFinding] = []
    found = resolve_accounts({channel: section}, {}, {}, ConfigPlace("", {}, findings))
    return found[channel]["default"].groups, findings


def test_groups_and_their_topics() -> None:
    topics = {"5": {"requireMention": False}, "6": {"enabled": False}}
    found, _ = made("telegram", {"groups": {"-1": {"allowFrom": [7], "systemPrompt": "x", "topics": topics}, "*": {}}})
    assert found == {
        "-1": GroupSettings(True, True, ("7",), "x"),
        "-1:topic:5": GroupSettings(True, False, ("7",), "x"),
        "-1:topic:6": GroupSettings(False, True, ("7",), "x"),
        "*": GroupSettings(True, True, None, ""),
    }


def test_the_older_word_of_a_topic_goes_before_its_groups_newer_one() -> None:
    found, _ = made("telegram", {"groups": {"-1": {"allowFrom": [7], "topics": {"5": {"users": [8]}, "6": {}}}}})
    assert {key: row.allow_from for key, row in found.items()} == {
        "-1": ("7",), "-1:topic:5": ("8",), "-1:topic:6": ("7",),
    }  # fmt: skip


def test_a_channel_that_is_only_named_is_as_its_server_is() -> None:
    found, _ = made("discord", {"guilds": {"9": {"enabled": False, "channels": {"1": True, "2": {"enabled": True}}}}})
    assert {key: row.enabled for key, row in found.items()} == {"1": False, "2": True, "guild:9": False}


def test_a_listed_room_is_open_to_who_is_in_it_unless_it_names_people() -> None:
    found, _ = made("slack", {"requireMention": False, "channels": {"C1": {}, "C2": {"users": ["U1"]}, "C3": False}})
    assert found["C1"] == GroupSettings(True, False, EVERY) and found["C2"].allow_from == ("U1",)
    assert not found["C3"].enabled


def test_servers_and_their_channels() -> None:
    found, _ = made(
        "discord", {"guilds": {"g1": {"users": ["7"]}, "g2": {"channels": {"c": {"requireMention": False}}}}}
    )
    assert found["guild:g1"] == GroupSettings(True, True, ("7",))
    assert found["c"] == GroupSettings(True, False, EVERY)
    assert not found["guild:g2"].enabled  # it lists channels: the others are not ours
    found, _ = made("discord", {"guilds": {"g": {"channels": {"*": {"requireMention": False}, "c": {"allow": False}}}}})
    assert found["guild:g"] == GroupSettings(True, False, EVERY) and not found["c"].enabled


def test_a_room_for_those_with_a_role_is_not_open_to_all() -> None:
    found, _ = made("discord", {"guilds": {"g": {"roles": ["r1"], "channels": {"c": {}}}}})
    assert (found["c"].allow_from, found["c"].roles) == ((), ("r1",))
    found, _ = made("discord", {"guilds": {"g": {"roles": [], "users": ["7"]}}})
    assert (found["guild:g"].allow_from, found["guild:g"].roles) == (("7",), ())


def test_a_groups_own_policy() -> None:
    found, findings = made("telegram", {"groups": {"-1": {"groupPolicy": "disabled"}, "-2": {}}})
    assert (found["-1"].policy, found["-2"].policy, findings) == ("disabled", None, [])


def test_names_of_rooms_are_told() -> None:
    _, findings = made("slack", {"channels": {"#general": {}}})
    assert [finding.path for finding in findings] == [("channels", "slack", "channels", "#general")]


def test_lists_that_have_a_name() -> None:
    findings: list[ConfigFinding] = []
    members = {"*": ["all"], "telegram": [1, "telegram:2"], "discord": ["3"]}
    teams = AccessGroups({"crew": {"type": "message.senders", "members": members}, "odd": {"type": "x.y"}}, findings)
    assert teams.ids(["accessGroup:crew", "9"], "telegram", ()) == ("all", "1", "telegram:2", "9")
    assert teams.ids(["accessGroup:crew"], "discord", ()) == ("all", "3") and findings == []
    assert teams.ids(["accessGroup:crwe"], "telegram", ("p",)) == () and "crew" in findings[0].hint
    assert teams.ids(["accessGroup:odd"], "telegram", ("p",)) == () and len(findings) == 2
