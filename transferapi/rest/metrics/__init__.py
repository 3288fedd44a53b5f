"""`/metrics`, for Prometheus: what the database knows, and what each web process counts in shared memory."""
