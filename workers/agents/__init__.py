"""Lanes to and from agents, to which no data connection can be made: parts of files, and the way that data takes."""
