"""The lanes of a slice: they are opened, supplied with files, and replaced after faults."""
