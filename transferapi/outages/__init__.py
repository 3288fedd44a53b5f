"""Outages of Redis and PostgreSQL: how long a caller waits, when nobody tries again, and what the log says."""
