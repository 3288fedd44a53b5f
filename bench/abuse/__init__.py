"""Attacks on a running instance, each beside an honest user: `python -m bench.abuse`.

Each module here with functions marked `@attack` (see `harness`) is found by itself.
"""
