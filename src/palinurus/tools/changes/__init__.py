"""What runs change in their workspaces, kept so that it can be shown, undone and done again."""
