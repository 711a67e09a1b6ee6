/* SPDX-License-Identifier: GPL-2.0 */
/* What both hosts in the kernel, the modules and BPF, have in common in their files. */
#ifndef CCATUNE_HOST_H
#define CCATUNE_HOST_H

#define CCATUNE_VERSION "0.1.0"

/* The algorithm of this object, CCATUNE_ALGORITHM: its number, and its name as a text. */
#define CCATUNE_PASTE_(a, b) a##b
#define CCATUNE_PASTE(a, b) CCATUNE_PASTE_(a, b)
#define CCATUNE_TEXT_(name) #name
#define CCATUNE_TEXT(name) CCATUNE_TEXT_(name)
#define CCATUNE_ID CCATUNE_PASTE(CCA_ID_, CCATUNE_ALGORITHM)
#define CCATUNE_NAME CCATUNE_TEXT(CCATUNE_ALGORITHM)

/* The name that sockets choose, by the algorithm's host in params.def. */
#define CCATUNE_NAMED_MODULE(name) #name
#define CCATUNE_NAMED_BPF(name) "ccatune_" #name
#define CCATUNE_NAMED_NAMESAKE(name) "ccatune_" #name

/* The setting class_source: how a socket chooses its delay class. */
enum ccatune_class_source {
	CCATUNE_CLASS_OF_NOTHING,
	CCATUNE_CLASS_OF_PRIORITY,
	CCATUNE_CLASS_OF_MARK,
};

/* Window mode: state at the last ACK that was passed to the core. */
struct ccatune_last_ack {
	u32 delivered_pkts;
	u32 lost_pkts;
	u32 limited_pkts;	/* delivered count up to which packets are application-limited */
	bool begun;
};

#endif /* CCATUNE_HOST_H */
