"""Health, for those who watch the service: `/healthz` (this process answers), `/readyz` (what it needs works)."""
