"""The agent as three nodes (input, agent, output), plain functions outside a flow."""
