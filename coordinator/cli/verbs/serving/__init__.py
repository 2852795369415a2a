"""The verbs that serve other programs than members, until they are stopped."""
