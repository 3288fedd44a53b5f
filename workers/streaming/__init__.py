"""Lanes whose data pass through this worker, for servers between which no third-party transfer is possible."""
