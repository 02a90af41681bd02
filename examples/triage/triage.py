"""Mail triage over a folder of .eml files: labels are the agent's to give, answers are drafts that you send yourself.

A mail may hold orders, so after reading one the gate asks before each effect; `decide` is this program's own rule.
"""

import email
import os
import sys
from email.policy import default
from pathlib import Path

from palinurus import Agent, ToolReach, tool
from palinurus.services.approvals import ApprovalRow
from palinurus.testing.model import ScriptedModel, call_tools, say

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("mails"))
MINE = ToolReach("mine", undo=True)
labels: dict[str, str] = {}
drafts: dict[str, str] = {}


@tool(effect="pure", reach=MINE)
def mails() -> dict[str, str]:
    """Sender and subject of every mail, by file name."""
    found = {}
    for file in sorted(FOLDER.glob("*.eml")):
        mail = email.message_from_bytes(file.read_bytes(), policy=default)
        found[file.name] = f"{mail['from']}: {mail['subject']}"
    return found


@tool(effect="pure", reach=MINE)
def mail(name: str) -> str:
    """The text of one mail."""
    message = email.message_from_bytes((FOLDER / Path(name).name).read_bytes(), policy=default)
    body = message.get_body(("plain",))
    return body.get_content() if body else ""


@tool(reach=MINE)
def label(name: str, word: str) -> str:
    """Put a label on a mail: urgent, later, or noise."""
    labels[name] = word
    return "labelled"


@tool(reach=MINE)
def draft(name: str, text: str) -> str:
    """Keep a draft of an answer. It is not sent."""
    drafts[name] = text
    return "kept"


def decide(question: ApprovalRow) -> bool:
    """Labels and drafts harm nobody; anything else that a mail might have talked the agent into is refused."""
    return question.ask.tool in ("label", "draft")


REHEARSAL = [
    call_tools(("mails", {})),
    call_tools(("mail", {"name": "1.eml"}), ("mail", {"name": "2.eml"})),
    call_tools(("label", {"name": "1.eml", "word": "urgent"}), ("label", {"name": "2.eml", "word": "noise"})),
    call_tools(("draft", {"name": "1.eml", "text": "I will be there at nine."})),
    say("One is urgent, one is noise; a draft for the yard is kept."),
]


def main() -> None:
    model = os.environ.get("PAL_MODEL") or ScriptedModel(REHEARSAL)
    with Agent(model, tools=[mails, mail, label, draft]).answer_with(decide) as agent:
        print(agent.run_sync("Label my mails and draft answers to what is urgent."))
    for name, word in labels.items():
        print(f"{name}: {word}", f"(draft: {drafts[name]})" if name in drafts else "")


if __name__ == "__main__":
    main()
