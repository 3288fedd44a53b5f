"""Activation: views and documents."""
