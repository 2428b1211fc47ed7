"""The lines to paste, one module per place where SDKs run; what they are quoted with is ``quoting``."""
