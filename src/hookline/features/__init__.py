"""Hold what people do with the pipeline: a folder per feature, with its service, store, API, pages and commands."""
