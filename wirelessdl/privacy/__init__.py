"""Differential privacy: what is released in a slot, and how releases are composed."""

from wirelessdl.privacy.accountant import AmplifiedAccountant, GaussianAccountant
from wirelessdl.privacy.ledger import FrameRelease, Ledger, Statement
from wirelessdl.privacy.pld import subsampled_rdp
from wirelessdl.privacy.terms import PrivacyAssumptions, valid_accountants
from wirelessdl.privacy.totals import calibrate, total_epsilon

__all__ = [
    "AmplifiedAccountant",
    "FrameRelease",
    "GaussianAccountant",
    "Ledger",
    "PrivacyAssumptions",
    "Statement",
    "calibrate",
    "subsampled_rdp",
    "total_epsilon",
    "valid_accountants",
]
