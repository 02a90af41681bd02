"""Skills, the pure half: `front` reads a header, `skill` makes a `Skill` of it, `gates` says whether it may be used,
`offer` fits the list into the prompt and names the commands, `danger` reads a folder as a sceptic would.
"""
