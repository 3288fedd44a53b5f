"""The console: tasks, pause rules and health of the endpoints that the reader manages, and the users of the service."""
