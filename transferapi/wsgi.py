"""The WSGI application: `gunicorn transferapi.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

from transferapi.rest.http.unread_bodies import UnreadBodies
from transferapi.schema_version import check_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")

application = UnreadBodies(get_wsgi_application())
check_or_exit()
