"""Notification: mail, webhooks, and the feed of events that open streams read."""
