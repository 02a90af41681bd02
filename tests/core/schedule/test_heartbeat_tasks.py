"""HEARTBEAT.md: empty or not, tasks with their intervals."""

from __future__ import annotations

import pytest

from palinurus.core.prompt.bootstrap import BootstrapFile, inject_files
from palinurus.core.schedule.heartbeat import HeartbeatTask, list_due_tasks, parse_heartbeat_page

TEXT = """# Beat
Look at the garden.
tasks:
  - name: mail
    interval: 2h
    prompt: "Look for urgent mail."
  - name: broken
    interval: soon
    prompt: never
- name: sea
  interval: 30m
  prompt: How is the tide?
After.
"""


def test_tasks_are_read_and_the_rest_stays() -> None:
    page = parse_heartbeat_page(TEXT)
    assert page.tasks == (
        HeartbeatTask("mail", 7200.0, "Look for urgent mail."),
        HeartbeatTask("sea", 1800.0, "How is the tide?"),
    )
    assert page.text == "# Beat\nLook at the garden.\nAfter."


NOTHING = ["", "# Title\n\n- [ ]\n-\n", "<!-- note -->\n\n```md\n```", "<!-- over\ntwo lines -->\n#"]
SOMETHING = ["#hashtag urgent", "- look", "```\nrun it\n```", "<!-- a --> look"]


@pytest.mark.parametrize(("text", "blank"), [*((t, True) for t in NOTHING), *((t, False) for t in SOMETHING)])
def test_the_prompt_and_the_scheduler_agree_on_what_says_nothing(text: str, blank: bool) -> None:
    assert (parse_heartbeat_page(text).text == "") is blank
    assert (inject_files([BootstrapFile("HEARTBEAT.md", "/w/HEARTBEAT.md", text)], 99, 999).files == ()) is blank


@pytest.mark.parametrize("text", [*NOTHING, "tasks:\n"])
def test_what_says_nothing(text: str) -> None:
    assert parse_heartbeat_page(text).text == "" and not parse_heartbeat_page(text).tasks


def test_only_due_tasks() -> None:
    tasks = parse_heartbeat_page(TEXT).tasks
    assert list_due_tasks(tasks, {}, 0) == tasks
    assert [t.name for t in list_due_tasks(tasks, {"mail": 0, "sea": 0}, 1_800_000)] == ["sea"]
