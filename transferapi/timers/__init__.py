"""Transfers that begin at a time, once or again and again: the rows, and what is due."""
