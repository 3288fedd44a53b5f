"""The pages of groups: the list with invitations, and one group with its members and policies."""
