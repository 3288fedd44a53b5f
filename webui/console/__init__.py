"""The console: tasks, pause rules and health of the endpoints that the reader manages; for staff, users and audit."""
