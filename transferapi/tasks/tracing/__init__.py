"""Spans of tasks, which several processes record, and the switch that turns traces on in a process."""
