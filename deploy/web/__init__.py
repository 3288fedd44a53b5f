"""The web server: the settings of gunicorn, its TLS, and how it starts and stops."""
