"""Decides how each record changes hard state: a file for each file of records, and the changes they share."""
