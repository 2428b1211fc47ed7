"""The description of the admin API: a table of operations, a module per group, and the document made from it."""
