"""`kcoord top`: one screen of what goes on now. Pure is what is known and shown; asking and the terminal are apart."""
