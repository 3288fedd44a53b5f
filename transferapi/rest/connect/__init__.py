"""Agents: their setup, their certificates, the program to download, and what the owners of endpoints see of them."""
