"""The pages of audiences and computed traits."""
