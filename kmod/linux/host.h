/* SPDX-License-Identifier: GPL-2.0 */
/* What both hosts in the kernel, the modules and BPF, have in common in their files. */
#ifndef CCATUNE_HOST_H
#define CCATUNE_HOST_H

#define CCATUNE_VERSION "0.1.0"

/* The setting class_source: how a socket chooses its delay class. */
enum ccatune_class_source {
	CCATUNE_CLASS_OF_NOTHING,
	CCATUNE_CLASS_OF_PRIORITY,
	CCATUNE_CLASS_OF_MARK,
};

#endif /* CCATUNE_HOST_H */
