"""Bookmarks: views and documents."""
