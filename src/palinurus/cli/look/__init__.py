"""Commands that look and change nothing: status, usage, why, tasks, prompts, the sandbox."""
