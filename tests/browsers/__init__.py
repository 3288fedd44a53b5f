"""Browsers of the tests, and what they show, hold and sign."""
