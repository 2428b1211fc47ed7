"""Find anything from anywhere: pages, actions, sources, destinations, people, event names, ids and documentation."""
