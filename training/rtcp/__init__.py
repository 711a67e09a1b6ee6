# SPDX-License-Identifier: MIT
"""Learns R-TCP's theta, eta and gamma by round trip and rate limit: cases, searches, judgement."""

from training.rtcp.settings import RtcpStudySettings, load_rtcp_study, rtcp_study_of
from training.rtcp.study import RtcpStudy

__all__ = ["RtcpStudy", "RtcpStudySettings", "load_rtcp_study", "rtcp_study_of"]
