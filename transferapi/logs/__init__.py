"""Log lines: their two formats, the facts of their context (request, task, user), and a bound for repeated ones."""
