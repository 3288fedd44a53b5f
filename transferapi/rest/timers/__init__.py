"""The Timers API."""
