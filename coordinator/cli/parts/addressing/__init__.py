"""The addresses of coordinators, when the command line does not say them itself."""
