"""The verbs about who may log in to a node, and what somebody may do there."""
