"""Transfers between endpoints: throughput, memory, sync, shares, and how right forecasts are."""
