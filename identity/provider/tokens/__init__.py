"""Tokens of our OAuth2 server: how their values are made and kept, and how many a user and an application may have."""
