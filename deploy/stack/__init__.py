"""The embedded stack: servers that run as our own child processes, and what keeps them running."""
