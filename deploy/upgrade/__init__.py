"""Upgrades without a pause: what each migration means for the version before, and when it may run (decision 0069)."""
