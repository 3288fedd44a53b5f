"""Tasks as managers of their endpoints see and control them (Transfer API, endpoint_manager)."""
