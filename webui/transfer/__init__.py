"""The Transfer page: two panes, each with a folder of an endpoint, and what is copied from one to the other."""
