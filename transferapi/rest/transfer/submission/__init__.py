"""Submissions of transfers and deletes: views and documents."""
