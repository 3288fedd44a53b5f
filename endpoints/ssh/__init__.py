"""Servers over ssh: keys, host keys, connections, and the login to a GridFTP server (sshftp)."""
