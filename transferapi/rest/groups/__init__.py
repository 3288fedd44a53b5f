"""The Groups API v2."""
