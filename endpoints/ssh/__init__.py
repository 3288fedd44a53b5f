"""GridFTP over ssh (sshftp): the keys, the login, and the channel to the remote command."""
