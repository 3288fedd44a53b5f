"""Activity: the list of tasks, the page of one task, and what its owner can do with it."""
