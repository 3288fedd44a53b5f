"""The embedded stack: servers that run as our own child processes, and their supervisor."""
