"""Answers to requests that are refused, or that fail."""
