"""Mirrors, and destinations that could lose what they have."""
