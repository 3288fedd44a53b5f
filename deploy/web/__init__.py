"""The web server: gunicorn with a worker whose threads do not wait for clients."""
