"""HTTP as collect speaks it: connections, requests, paths and finished answers."""
