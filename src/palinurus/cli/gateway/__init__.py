"""The gateway as a process: started, kept running as a service, reloaded, watched."""
