"""Servers of endpoints as they are registered: their addresses, their host keys, and our program in their accounts."""
