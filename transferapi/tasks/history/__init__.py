"""The history of a task for people: causes of errors, the rate over time, and how to do the same again."""
