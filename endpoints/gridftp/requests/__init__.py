"""Requests of a session that take several commands: symlinks, and the facts of FTP servers without MLST."""
