"""Where octets leave this service towards a server: sockets, and the fence before them.

The reasons: docs/decisions/leases-and-fence.md.
"""
