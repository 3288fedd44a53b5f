"""Upkeep of the tables: periodic jobs, retention, and the space that tasks take."""
