"""The settings in force, and the pages about the installation itself."""
