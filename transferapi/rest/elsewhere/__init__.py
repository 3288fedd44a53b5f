"""Requests that no route takes: for services of Globus that are not here, and addresses with doubled slashes."""
