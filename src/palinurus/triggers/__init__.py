"""What starts turns without anybody writing: jobs that are due, heartbeats, things to tell a session."""
