"""The messages on the wire, shared by both ends; imports nothing of ours and of others only msgspec."""
