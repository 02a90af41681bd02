"""Other machines that do something for the agent: who is paired, who is connected, what is asked of them."""
