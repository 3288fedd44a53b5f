"""One file between this service and a server, in MODE S: its octets, on a data connection of our own."""
