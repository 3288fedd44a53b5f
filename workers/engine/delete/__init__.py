"""Deletion: DELETE tasks, extra files at the destination, and the removal of trees."""
