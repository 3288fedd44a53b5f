"""Administration by staff: users, their sessions, invitations, and the audit log. Extensions of ours."""
