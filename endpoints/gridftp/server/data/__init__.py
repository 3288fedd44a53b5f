"""The data connections of a session: how files are sent and received, and the markers that report progress."""
