"""All that an executor loads: connections to Kafka, decoding and Arrow. Imports neither coordinator nor msgspec."""
