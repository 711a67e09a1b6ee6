/* SPDX-License-Identifier: GPL-2.0 */
/*
 * R-TCP's headers, for its adapters. Each host has its own struct rtcp_member: how a flow finds its
 * client. In BPF each flow has a client of its own.
 */
#ifndef CCATUNE_RTCP_HOST_H
#define CCATUNE_RTCP_HOST_H

#if defined(CCATUNE_BPF_H)
#include "../bpf/rtcp_parts.h"
#elif defined(CCATUNE_BPF_TOOL_H)
#include "../bpf/rtcp_member.h"
#else
#include "tcp_rtcp.h"
#endif

#include "rtcp_recording.h"

#define ALG_HAS_CLIENT
#define alg_params rtcp_params

#endif /* CCATUNE_RTCP_HOST_H */
