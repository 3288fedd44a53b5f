"""Backups: one file with the database, another one with the keys, and the way back with every task held."""
