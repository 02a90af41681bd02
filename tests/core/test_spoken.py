"""Whose words a message holds."""

from __future__ import annotations

import pytest

from palinurus.core.prompt.facts import HEARTBEAT_PROMPT
from palinurus.core.spoken import SpokenMessage, read_spoken
from palinurus.core.structured import write_correction
from palinurus.core.types.messages import ImageBlock, TextBlock, UserMessage
from palinurus.core.untrusted import (
    frame_attachment,
    frame_earlier_message,
    frame_group_title,
    frame_message,
    frame_quote,
    prefix_speaker,
)

FILE = frame_attachment("notes.txt", "text/plain", "/home/me/in/notes.txt", 1150)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "hello"),
        (f"look at these\n{FILE}", "look at these"),
        ("[file under ice] is a song", "[file under ice] is a song"),
        ("[1] first\n[2] second", "[1] first\n[2] second"),
        ("[The editor is open in /src]\nhello", "hello"),
        (
            frame_message(
                prefix_speaker("Ann", "and now?"),
                [frame_group_title("Den"), frame_quote("Bob", "so")],
                [FILE],
                [frame_earlier_message("Bob", "so")],
            ),
            "Ann: and now?",
        ),
    ],
)
def test_a_person_speaks(text: str, words: str) -> None:
    assert read_spoken(UserMessage(text)) == SpokenMessage(words)


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("System: sub-agent “x” completed successfully.\n\nResult …", "sub-agent “x” completed successfully."),
        ("[cron:56fb-a150 Ping] say ping\n\nThis was scheduled", "Job: Ping"),
        (HEARTBEAT_PROMPT, "Heartbeat"),
        (write_correction("it is empty"), write_correction("it is empty").removeprefix("[Palinurus] ")),
        ("[Subagent Task]\nfind the file\nand read it", "Task: find the file"),
    ],
)
def test_the_program_speaks(text: str, about: str) -> None:
    assert read_spoken(UserMessage(text)) == SpokenMessage("", about)


def test_what_was_told_before_the_message_is_not_the_persons() -> None:
    told = TextBlock("System: the job 'Ping' told the person: ping\n\n")
    picture = ImageBlock("aGk=", "image/png")
    assert read_spoken(UserMessage((told, TextBlock("thanks"), picture))) == SpokenMessage("thanks")
    assert read_spoken(UserMessage((picture,))) == SpokenMessage("")
