"""The air of one frame: its timing, who may send in it, what it costs, what disturbs it."""
