"""The air between nodes: |h| per link, vectorised."""
