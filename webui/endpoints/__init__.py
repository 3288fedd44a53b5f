"""The pages of endpoints: the list, one endpoint with its servers, shares, access rules, roles and pauses."""
