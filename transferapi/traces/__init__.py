"""Traces of tasks, for an OpenTelemetry collector: spans, the submission that begins one, and their export."""
