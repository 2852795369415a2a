"""The people who use a console that other machines reach: who somebody is, and what the coordinators let them see.

The console keeps no users and no rights. A person's name and password, or token, come with each request, and the
coordinators say whether they are good and which groups that person may see.
"""
