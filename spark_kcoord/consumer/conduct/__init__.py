"""The conduct of a consumer: what each of its calls does in which order, the same for every kind of shell."""
