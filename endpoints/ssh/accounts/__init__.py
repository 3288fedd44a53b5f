"""Accounts that are reached by ssh: the program that moves their files, found there or sent there, and its sessions."""
