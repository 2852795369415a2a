"""The verbs that look at a group again and again."""
