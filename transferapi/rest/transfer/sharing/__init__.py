"""Shared endpoints, access rules and roles: views and documents."""
