"""FTP over TLS, as a client (RFC 4217): control channels by AUTH TLS, data connections by PROT P."""
