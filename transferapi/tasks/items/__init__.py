"""Items of submissions: their checks, the temporary files that keep long lists, and their rows in the database."""
