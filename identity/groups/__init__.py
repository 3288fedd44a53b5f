"""Groups of people and their memberships (Groups API v2)."""
