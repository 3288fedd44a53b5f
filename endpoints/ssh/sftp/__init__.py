"""SFTP servers as endpoints: sessions, and files that this service reads and writes itself (asyncssh)."""
