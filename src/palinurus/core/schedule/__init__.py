"""When things are due: cron lines, jobs, what to do about missed times, active hours, tasks of HEARTBEAT.md. Pure."""
