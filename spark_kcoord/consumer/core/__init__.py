"""A consumer without input or output: what it holds, what a poll may return, what a commit may say."""
