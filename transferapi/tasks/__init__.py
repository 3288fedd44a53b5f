"""The transfer task: its states, submission, files, events and leases. No GridFTP, no Celery worker."""
