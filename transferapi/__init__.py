"""Django's project: settings, URLs and WSGI, which connect the rooms."""
