"""Demands of endpoints on the sign-in of their users (step-up)."""
