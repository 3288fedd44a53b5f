"""Upgrades without a pause: what each migration means for the version before, and when it may run.

The reasons: docs/decisions/upgrade-and-backup.md.
"""
