"""What the REST API costs: `python -m bench.api`."""
