"""Agents and the relay, measured."""
