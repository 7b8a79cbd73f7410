"""What can be said of a scenario before it runs."""
