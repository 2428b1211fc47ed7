"""The screens of audiences and computed traits."""
