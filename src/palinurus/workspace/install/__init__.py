"""Installing skills: `source` fetches, `packages` says what is in it, puts it where skills lie and pins it. Nothing of
a skill is ever run here.
"""
