"""Where octets leave this service towards a server: sockets, and the fence before them (docs/decisions/0092)."""
