"""The rehearsal of docs/operate: its own commands on bare Debian systems with systemd."""
