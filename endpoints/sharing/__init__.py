"""Shared endpoints: shares, their access rules and roles, and the paths that a user may read and write."""
