"""The routes of the Transfer API below /v2/, which speak JSON:API."""
