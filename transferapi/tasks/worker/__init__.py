"""The tables as a worker uses them: leases, scan results, settlement; each call is a short transaction."""
