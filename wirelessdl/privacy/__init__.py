"""Differential privacy: what is released in a slot, and how releases are composed."""

from wirelessdl.privacy.accountant import AmplifiedAccountant, GaussianAccountant
from wirelessdl.privacy.combinations import valid_accountants
from wirelessdl.privacy.ledger import Ledger, Statement
from wirelessdl.privacy.rdp import subsampled_rdp
from wirelessdl.privacy.release import FrameRelease
from wirelessdl.privacy.terms import Terms
from wirelessdl.privacy.totals import calibrate, total_epsilon

__all__ = [
    "AmplifiedAccountant",
    "FrameRelease",
    "GaussianAccountant",
    "Ledger",
    "Statement",
    "Terms",
    "calibrate",
    "subsampled_rdp",
    "total_epsilon",
    "valid_accountants",
]
