"""The interactive mode: line editing, history, completion and prompts on a channel of octets.

`session.run` is the interactive mode, `session.run_line` one command with a terminal (`ssh -t`). The ssh server gives
them a `channel.TerminalChannel`, and a `context.Caller` for the user.
"""
