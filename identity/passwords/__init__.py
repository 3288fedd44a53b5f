"""Passwords: the words that none may be made of, and the way back by mail for a user who has lost one."""
