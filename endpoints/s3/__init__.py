"""Object stores that speak the S3 protocol: the client, and sessions whose paths are buckets and keys."""
