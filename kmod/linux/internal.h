/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the files of ccatune.ko share. */
#ifndef CCATUNE_INTERNAL_H
#define CCATUNE_INTERNAL_H

#include <linux/fs.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "ccatune.h"

/*
 * For allocations whose size the written text determines. They are charged to the writer. If one
 * fails, only the writer is notified: the kernel logs no warning.
 */
#define CCATUNE_GFP_LARGE (GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

/* table.c */
struct ccatune_table *ccatune_table_alloc(void);
int ccatune_table_add_stats(struct ccatune_table *table, const struct ccatune_cca *cca);
void ccatune_table_put(struct ccatune_table *table);
struct ccatune_table *ccatune_table_get_own(struct ccatune_cca *cca, u64 *generation);
int ccatune_table_take(struct ccatune_cca *cca, struct ccatune_table *offered);
struct ccatune_table *ccatune_table_unpublish(struct ccatune_cca *cca);
void ccatune_table_clear(struct ccatune_cca *cca);
int ccatune_params_set(struct ccatune_cca *cca, const char *text, u32 len);
void ccatune_recall(struct ccatune_cca *cca);
int ccatune_params_init(struct ccatune_cca *cca);

/* record.c */
void ccatune_recording_stop(struct ccatune_cca *cca);
u32 ccatune_recording_number(void);

/* values.c */
void ccatune_settings_init(struct ccatune_cca *cca);
bool ccatune_may_write(const struct file *file);

static inline struct ccatune_cca *ccatune_cca_of_file(const struct file *file)
{
	return pde_data(file_inode(file));
}

/* The files in the folder /proc/net/ccatune/<cca>/. */
extern const struct proc_ops ccatune_ensemble_ops;
extern const struct proc_ops ccatune_parameters_ops;
extern const struct proc_ops ccatune_settings_ops;
extern const struct proc_ops ccatune_status_ops;
extern const struct proc_ops ccatune_flows_ops;
extern const struct proc_ops ccatune_recording_ops;

#endif /* CCATUNE_INTERNAL_H */
