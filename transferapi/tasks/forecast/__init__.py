"""Forecasts: how long a transfer will take, from what has run before."""
