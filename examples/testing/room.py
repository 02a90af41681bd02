"""A tool, and a check: what stock.yaml and the tests of this folder use."""

from palinurus import tool


@tool(effect="pure")
def stock(item: str) -> int:
    """How many of an item are in the store room."""
    return {"rope": 4}.get(item, 0)


def is_short(turn) -> bool:
    """A check gets the turn; False, a text or a failed assertion is a problem."""
    return len(turn.text) < 100
