"""The Celery app and its jobs, and the ports of the engine on the real database, servers and credentials."""
