"""Installing skills: `source` fetches, `parcel` says what is in it, `place` puts it where skills lie and pins it.

Nothing of a skill is ever run here.
"""
