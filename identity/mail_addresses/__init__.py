"""The mail address of a user, which the user sets or changes: a link by mail proves the new one."""
