"""The admin API: everything about running one installation, behind a token; the collection API is another room."""
