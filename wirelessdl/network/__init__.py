"""Where nodes are, how they move, who hears whom."""
