"""Outages of Redis and PostgreSQL: how long a caller waits, when nobody tries again, what the log says. Hung loops."""
