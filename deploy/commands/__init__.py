"""The commands of `waybill`, one module for each (`deploy/cli.py` has the parser)."""
