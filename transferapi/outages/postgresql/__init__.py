"""Django's backend for PostgreSQL, with bounds for servers that do not answer (`ENGINE` of the settings)."""
