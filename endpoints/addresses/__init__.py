"""The address gate: the addresses to which the service may connect."""
