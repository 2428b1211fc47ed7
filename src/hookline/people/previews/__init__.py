"""How many people a definition would find, before anybody saves it."""
