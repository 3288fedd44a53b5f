"""Requests that pages of other sites send (CORS): which sites, and the headers that let them read answers."""
