"""Timers: transfers that are submitted at a given time, once or periodically."""
