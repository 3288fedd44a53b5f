"""From the arrival of a file to its settlement: size, checksum, modification time, and the written batch."""
