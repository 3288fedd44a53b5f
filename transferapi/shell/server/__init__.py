"""The ssh server of the shell: connections, sign-in, channels, and the threads that run commands.

`main.serve` runs it. It offers no file system, no process and no forwarding of this host: a channel reaches
`transferapi.shell.interpreter` and the terminal, and nothing else.
"""
