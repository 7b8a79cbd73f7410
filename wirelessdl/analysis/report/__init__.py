"""The report: one HTML file of one run or several, which opens without a network."""

from wirelessdl.analysis.report.page import write_report

__all__ = ["write_report"]
