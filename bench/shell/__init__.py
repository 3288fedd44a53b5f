"""The cost of the ssh shell: `python -m bench.shell`."""
