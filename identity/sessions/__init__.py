"""Sessions of the pages, in a table that names their users, and links that begin one."""
