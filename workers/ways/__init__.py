"""The ways that the data of a lane can take, in the order of preference (`choice.WAYS`).

Each way is a class: it says whether it is possible between two servers (`of`), how it is tried, which words the user
gets, and opens the lane. To add one, write its class, and give it a place in the order; no other file changes.
"""
