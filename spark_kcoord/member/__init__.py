"""All that a Spark driver loads to be a member: the sans-IO machine, its transport and the blocking client."""
