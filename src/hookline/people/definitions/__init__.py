"""How a person is judged: what a definition needs of events, whether it holds, until when, and why."""
