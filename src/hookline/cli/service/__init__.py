"""Starting the service, and the installation as a whole."""
