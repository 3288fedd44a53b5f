"""The WSGI application: `gunicorn transferapi.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

from transferapi.schema_version import check_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")

application = get_wsgi_application()
check_or_exit()
