"""A query that reads as a member and never commits: its positions, and the member that keeps to them."""
