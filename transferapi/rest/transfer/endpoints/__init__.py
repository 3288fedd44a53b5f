"""Endpoints and their servers: views and documents."""
