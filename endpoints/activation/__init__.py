"""Activation: whether a user has a credential that an endpoint accepts, and the forms for giving one."""
