"""The room of the pages (floor 5). It is empty in this version: the service is used by REST."""
