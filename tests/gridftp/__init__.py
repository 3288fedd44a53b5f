"""GridFTP, FTP and SFTP in the tests: servers, clients, and proxies that misbehave."""
