"""All that an executor loads: connections to Kafka, record decoding and Arrow. Imports neither coordinator nor msgspec."""
