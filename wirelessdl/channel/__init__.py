"""The air between nodes: |h| per link, vectorised."""

from wirelessdl.channel.loss import los_probability, path_loss_db

__all__ = ["los_probability", "path_loss_db"]
