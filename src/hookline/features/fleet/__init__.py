"""The processes of this installation: how they are, what they measure, who stands by."""
