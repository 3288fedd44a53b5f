"""The REST API: views and documents, in a folder for each API that clients know."""
