"""From runs and plans to figures."""
