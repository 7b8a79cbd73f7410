"""The report: one HTML file of one run, of several or of a study, which opens without a network."""

from wirelessdl.analysis.report.page import write_report
from wirelessdl.analysis.report.study import write_study_report

__all__ = ["write_report", "write_study_report"]
