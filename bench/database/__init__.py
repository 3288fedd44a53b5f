"""The space that tasks take in the database."""
