"""/learn: what the agent would like to remember, and the owner's decision. Not where others read along: the proposals
are made of the owner's memory.
"""

from __future__ import annotations

from palinurus.errors import BadRequest, NotFound
from palinurus.inbox.commands.command import CommandAnswer, CommandCall, CommandContext
from palinurus.providers.task import TaskModel
from palinurus.services.learning import LearningBoard, describe_proposal, format_proposal

_DONE = {"accepted": "Written", "refused": "Refused: nothing was changed", "undone": "Put back as it was"}
_USAGE = "/learn, /learn list, /learn show|accept|refuse|undo ID, /learn edit ID TEXT"


def open_learning(program: CommandContext) -> LearningBoard:
    """The board of a program. Raises BadRequest where there is no model to ask."""
    if program.learn is None:
        raise BadRequest("there is nobody here who could be asked")
    model, mark = program.learn
    return LearningBoard(
        program.settings,
        program.store,
        program.clock,
        program.transcripts,
        task=lambda: TaskModel(program.settings, program.catalog, model),
        mark=mark,
    )


async def run_learn(call: CommandCall) -> CommandAnswer:
    """Without words: look at this session, then say what waits."""
    if call.shared:
        return CommandAnswer(
            "Not here: others would read what is in your memory. Use `pal learn`, or write to me alone."
        )
    board = open_learning(call.program)
    verb, _, rest = call.args.strip().partition(" ")
    name, _, text = rest.strip().partition(" ")
    try:
        match verb.lower():
            case "" | "now":
                found = await board.look(str(call.key))
                return CommandAnswer(await _list(board, "" if found else "Nothing new to learn from here."))
            case "list":
                return CommandAnswer(await _list(board))
            case "show":
                return CommandAnswer(format_proposal(describe_proposal(await board.find(name))))
            case "accept" | "refuse" | "undo":
                made = await getattr(board, verb.lower())(name)
            case "edit" if text.strip():
                made = await board.accept(name, text.strip() + "\n")
            case _:
                return CommandAnswer(f"Use it like this: {_USAGE}.")
    except (BadRequest, NotFound) as exc:
        return CommandAnswer(f"{exc.message[:1].upper()}{exc.message[1:]}.")
    return CommandAnswer(f"{_DONE.get(made.state, made.state)}: {made.path} ({made.id}).")


async def _list(board: LearningBoard, first: str = "") -> str:
    rows = [format_proposal(describe_proposal(one), whole=False) for one in await board.list_proposals()]
    if not rows:
        return first or "No proposals wait for you."
    marked = ["(!) had read words from outside."] if any(row.endswith("(!)") for row in rows) else []
    return "\n".join([*([first] if first else []), *rows, *marked, "/learn show ID, then accept, edit or refuse it."])
