"""Runs that another program does: Codex, Claude Code. They make the same events as `agent/loop`.

`choose` says whether a run is one of these, `drive` is what they share, `codex` and `claude` speak to the programs,
`mirror` makes events and transcript lines of what they say.
"""
