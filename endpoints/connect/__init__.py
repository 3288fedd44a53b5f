"""Agents: the programs that make machines behind NAT endpoints. Their setup keys, certificates and presence."""
