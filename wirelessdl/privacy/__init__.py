"""What left the antenna, and how it is counted."""

from wirelessdl.privacy.accountant import AmplifiedAccountant, GaussianAccountant, total_epsilon
from wirelessdl.privacy.ledger import Ledger, Statement, Terms
from wirelessdl.privacy.rdp import subsampled_rdp
from wirelessdl.privacy.release import SlotRelease

__all__ = [
    "AmplifiedAccountant",
    "GaussianAccountant",
    "Ledger",
    "SlotRelease",
    "Statement",
    "Terms",
    "subsampled_rdp",
    "total_epsilon",
]
