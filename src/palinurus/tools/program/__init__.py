"""Tools that reach a part of the program through a port: sessions, sub-agents, memory, schedules, chats, config."""
