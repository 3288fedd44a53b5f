"""Random trees under random faults, every hash compared: `python -m bench.soak`."""
