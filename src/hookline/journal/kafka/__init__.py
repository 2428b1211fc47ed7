"""The journal on Kafka: a topic, whose partitions are the journal's and whose offsets are the records'."""
