"""The pages of destinations: the list, and one page with a tab for each thing that people do with a destination."""
