"""The time from a submission to a settled file, and what security adds to it."""
