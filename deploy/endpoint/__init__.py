"""Endpoints that are not ours: the Grid Community Toolkit's own GridFTP server."""
