"""Servers that issue credentials: MyProxy, and the OAuth servers of endpoints."""
