"""Servers of the tests that are no GridFTP servers and no identity providers: real ones, and some that lie."""
