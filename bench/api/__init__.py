"""The cost of the REST API: `python -m bench.api`."""
