"""The records of endpoints and files that commands show, and the options that set fields of endpoints."""
