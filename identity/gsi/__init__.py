"""Certificates of the Grid Security Infrastructure: names, chains, proxies, policies, trust. No Django, no socket."""
