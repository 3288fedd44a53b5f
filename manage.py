#!/usr/bin/env python3
"""Django's commands. Without DATABASE_URL and REDIS_URL they speak to the embedded stack of `make up`."""

import os
import sys

from django.core.management import execute_from_command_line

from deploy.stack.embedded import use_embedded_stack

if __name__ == "__main__":
    use_embedded_stack()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    execute_from_command_line(sys.argv)
