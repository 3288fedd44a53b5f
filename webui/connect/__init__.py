"""The pages of agents: what one is and how to get it, a setup key, and the agent of one endpoint."""
