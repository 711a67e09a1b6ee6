// SPDX-License-Identifier: GPL-2.0
/*
 * The tables and parameters in force. One writer at a time replaces a table or a set of
 * parameters as a whole. Flows read them without a lock. A table that was replaced is freed after
 * a grace period, when no open file shows it any more.
 */
#include <linux/mm.h>

#include "internal.h"
#include "params_text.h"

static atomic64_t ccatune_generations;	/* the last one of any table */
static atomic_t ccatune_versions;	/* the last one of any parameters */

struct ccatune_table *ccatune_table_alloc(void)
{
	struct ccatune_table *table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);

	if (table)
		refcount_set(&table->refs, 1);
	return table;
}

/*
 * Allocates the sums. The maximum length of the text bounds the rows to less than 2^15. cca: the
 * instance that the table is for.
 */
int ccatune_table_add_stats(struct ccatune_table *table, const struct ccatune_cca *cca)
{
	table->owner = cca;
	table->groups = cca->initial ? CCATUNE_GROUPS : CCATUNE_MOST_GROUPS;
	table->sums = kvcalloc(ens_rows(&table->ens) * table->groups, sizeof(*table->sums),
			       CCATUNE_GFP_LARGE);
	table->delays = kvcalloc(ens_state_rows(&table->ens) * table->groups,
				 sizeof(*table->delays), CCATUNE_GFP_LARGE);
	return table->sums && table->delays ? 0 : -ENOMEM;
}

void ccatune_table_put(struct ccatune_table *table)
{
	if (!table || !refcount_dec_and_test(&table->refs))
		return;
	kvfree(table->ens.values);
	kvfree(table->sums);
	kvfree(table->delays);
	kfree(table);
}

/*
 * The namespace's own table with a reference, NULL if there is none. generation: the count of
 * changes at that moment.
 */
struct ccatune_table *ccatune_table_get_own(struct ccatune_cca *cca, u64 *generation)
{
	struct ccatune_table *table;

	/* Under the writers' lock the table in force keeps its own reference. */
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

/*
 * Makes each flow look its row up at its next ACK or transmission. Call this with the writers'
 * lock held, after the change that flows must see.
 */
void ccatune_recall(struct ccatune_cca *cca)
{
	/* Pairs with ccatune_recalls(). */
	smp_store_release(&cca->recalls, cca->recalls + 1);
}

/*
 * Returns 1 if the offered table is in force now and no longer belongs to the caller, and 0 if
 * the same table was in force already. Otherwise it returns an error of ens_admit().
 */
int ccatune_table_take(struct ccatune_cca *cca, struct ccatune_table *offered)
{
	struct ccatune_table *before;
	bool recalls = false;
	int verdict;

	mutex_lock(&cca->lock);
	before = rcu_dereference_protected(cca->table, lockdep_is_held(&cca->lock));
	verdict = ens_admit(before ? &before->ens : NULL, &offered->ens);
	if (verdict > 0) {
		offered->ens.generation = atomic64_inc_return(&ccatune_generations);
		cca->generation++;
		rcu_assign_pointer(cca->table, offered);
		recalls = offered->ens.urgent;
	} else if (!verdict && offered->ens.urgent && !before->ens.urgent) {
		cca->generation++;
		WRITE_ONCE(before->ens.urgent, true);
		recalls = true;
	}
	if (recalls)
		ccatune_recall(cca);
	mutex_unlock(&cca->lock);
	if (verdict > 0)
		ccatune_table_retire(before);
	return verdict;
}

/* Returns the table that was in force. The caller puts it after a grace period. */
struct ccatune_table *ccatune_table_unpublish(struct ccatune_cca *cca)
{
	struct ccatune_table *before;

	mutex_lock(&cca->lock);
	before = rcu_replace_pointer(cca->table, NULL, lockdep_is_held(&cca->lock));
	cca->generation++;
	ccatune_recall(cca);
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

/* Applies the text to a copy of the values in force. Call this with the writers' lock held. */
static int params_parse(struct ccatune_cca *cca, u32 *values, const char *text, u32 len)
{
	u32 line_no;

	rcu_read_lock();
	memcpy(values, ccatune_params(cca)->value, CCA_MAX_PARAMS * sizeof(*values));
	rcu_read_unlock();
	return cca_parse_params(values, cca->algorithm->id, text, len, &line_no);
}

/*
 * Takes effect as a whole or not at all. The line `clear` removes the namespace's own parameters.
 * Then those of the initial namespace apply, or the algorithm's defaults.
 */
int ccatune_params_set(struct ccatune_cca *cca, const char *text, u32 len)
{
	bool clear = cca_is_clear(text, len);
	struct ccatune_params *params, *before;
	int err = 0;

	params = kzalloc(sizeof(*params), GFP_KERNEL_ACCOUNT);
	if (!params)
		return -ENOMEM;
	mutex_lock(&cca->lock);
	if (clear)
		cca_params_init(params->value, cca->algorithm->id);
	else
		err = params_parse(cca, params->value, text, len);
	if (!err) {
		params->version = (u32)atomic_inc_return(&ccatune_versions);
		/* A reader that sees has_params must see the values that were written. */
		if (clear)
			WRITE_ONCE(cca->has_params, false);
		before = rcu_replace_pointer(cca->params, params, lockdep_is_held(&cca->lock));
		if (!clear)
			smp_store_release(&cca->has_params, true);
		cca->generation++;
		kfree_rcu(before, rcu);
		params = NULL;
	}
	mutex_unlock(&cca->lock);
	kfree(params);
	return err;
}
