"""The office of the controller: who holds it, what is due in it, and who is chosen for what."""
