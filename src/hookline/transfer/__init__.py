"""Moving a data folder to Kafka and PostgreSQL, so that every place in its databases stays valid (decision 0027)."""
