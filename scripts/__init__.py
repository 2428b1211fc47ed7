"""Commands of the repository; `make help` lists the targets that run them."""
