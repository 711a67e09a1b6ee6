// SPDX-License-Identifier: GPL-2.0
/*
 * Tables and parameters in force: taken whole, by one writer at a time, and read
 * by flows without a lock. A table that is replaced is freed when a grace period
 * has passed and no open file shows it any more.
 */
#include <linux/mm.h>

#include "internal.h"
#include "params_text.h"

static atomic64_t ccatune_generations;	/* of all tables of all namespaces */
static atomic_t ccatune_versions;	/* of all parameters */

struct ccatune_table *ccatune_table_alloc(void)
{
	struct ccatune_table *table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);

	if (table)
		refcount_set(&table->refs, 1);
	return table;
}

/* The text bounds the rows: less than 2^15 of them. */
int ccatune_table_add_stats(struct ccatune_table *table)
{
	table->rows = kvcalloc(ens_rows(&table->ens), sizeof(*table->rows), CCATUNE_GFP_LARGE);
	table->delays = kvcalloc(table->ens.n_classes, sizeof(*table->delays), CCATUNE_GFP_LARGE);
	return table->rows && table->delays ? 0 : -ENOMEM;
}

void ccatune_table_put(struct ccatune_table *table)
{
	if (!table || !refcount_dec_and_test(&table->refs))
		return;
	kvfree(table->ens.values);
	kvfree(table->rows);
	kvfree(table->delays);
	kfree(table);
}

/* With a reference, and the count of changes that belongs to it. */
struct ccatune_table *ccatune_table_get_own(struct ccatune_cca *cca, u64 *generation)
{
	struct ccatune_table *table;

	/* The writers' lock: a table in force has its own reference. */
	mutex_lock(&cca->lock);
	table = rcu_dereference_protected(cca->table, lockdep_is_held(&cca->lock));
	if (table)
		refcount_inc(&table->refs);
	*generation = cca->generation;
	mutex_unlock(&cca->lock);
	return table;
}

static void ccatune_table_retire(struct ccatune_table *table)
{
	if (!table)
		return;
	synchronize_rcu();
	ccatune_table_put(table);
}

/* 1: in force now, and no longer the caller's. 0: is in force already. Else an error. */
int ccatune_table_take(struct ccatune_cca *cca, struct ccatune_table *offered)
{
	struct ccatune_table *before;
	int verdict;

	mutex_lock(&cca->lock);
	before = rcu_dereference_protected(cca->table, lockdep_is_held(&cca->lock));
	verdict = ens_admit(before ? &before->ens : NULL, &offered->ens);
	if (verdict > 0) {
		offered->ens.generation = atomic64_inc_return(&ccatune_generations);
		cca->generation++;
		rcu_assign_pointer(cca->table, offered);
	}
	mutex_unlock(&cca->lock);
	if (verdict > 0)
		ccatune_table_retire(before);
	return verdict;
}

/* The caller's, to be put when a grace period has passed. */
struct ccatune_table *ccatune_table_unpublish(struct ccatune_cca *cca)
{
	struct ccatune_table *before;

	mutex_lock(&cca->lock);
	before = rcu_replace_pointer(cca->table, NULL, lockdep_is_held(&cca->lock));
	cca->generation++;
	mutex_unlock(&cca->lock);
	return before;
}

void ccatune_table_clear(struct ccatune_cca *cca)
{
	ccatune_table_retire(ccatune_table_unpublish(cca));
}

int ccatune_params_init(struct ccatune_cca *cca)
{
	struct ccatune_params *params = kzalloc(sizeof(*params), GFP_KERNEL_ACCOUNT);

	if (!params)
		return -ENOMEM;
	params->version = (u32)atomic_inc_return(&ccatune_versions);
	cca_params_init(params->value, cca->algorithm->id);
	rcu_assign_pointer(cca->params, params);
	return 0;
}

/* All lines count, or none. Without a line nothing changes. */
int ccatune_params_set(struct ccatune_cca *cca, const char *text, u32 len)
{
	struct ccatune_params *params, *before;
	u32 line_no;
	int err;

	params = kzalloc(sizeof(*params), GFP_KERNEL_ACCOUNT);
	if (!params)
		return -ENOMEM;
	mutex_lock(&cca->lock);
	rcu_read_lock();
	memcpy(params->value, ccatune_params(cca)->value, sizeof(params->value));
	rcu_read_unlock();
	err = cca_parse_params(params->value, cca->algorithm->id, text, len, &line_no);
	if (!err) {
		params->version = (u32)atomic_inc_return(&ccatune_versions);
		before = rcu_replace_pointer(cca->params, params, lockdep_is_held(&cca->lock));
		WRITE_ONCE(cca->has_params, true);
		cca->generation++;
		kfree_rcu(before, rcu);
		params = NULL;
	}
	mutex_unlock(&cca->lock);
	kfree(params);
	return err;
}
