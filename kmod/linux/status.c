// SPDX-License-Identifier: GPL-2.0
/*
 * The file `status`: lines of `name value`, then a `delay` line per class and a `row` line per
 * row. There is one such line for each group of flows that has used the class or the row. The
 * sums belong to the table, so they start at 0 with the next table. The initial namespace's file
 * has separate lines, `flows=followers`, for the flows of namespaces that follow its table.
 */
#include "internal.h"

static const char *const status_groups[CCATUNE_MOST_GROUPS] = {
	[CCATUNE_ENSEMBLE] = "ensemble flows=own",
	[CCATUNE_HELD_BACK] = "held_back flows=own",
	[CCATUNE_FOLLOWERS + CCATUNE_ENSEMBLE] = "ensemble flows=followers",
	[CCATUNE_FOLLOWERS + CCATUNE_HELD_BACK] = "held_back flows=followers",
};

struct status_file {
	struct ccatune_cca *cca;
	struct ccatune_table *table;	/* the table that the file shows */
	u64 generation;
};

/*
 * Line 0 stands for all totals. It is followed by classes x groups lines of delays and rows x
 * groups lines of sums.
 */
static u32 status_delay_lines(const struct ccatune_table *table)
{
	return table ? ens_state_rows(&table->ens) * table->groups : 0;
}

static u32 status_lines(const struct ccatune_table *table)
{
	if (!table)
		return 1;
	return 1 + status_delay_lines(table) + ens_rows(&table->ens) * table->groups;
}

static const char *status_follows(struct ccatune_cca *cca)
{
	const char *whose;

	rcu_read_lock();
	if (rcu_access_pointer(cca->table))
		whose = "own";
	else
		whose = ccatune_table(cca) ? "initial" : "none";
	rcu_read_unlock();
	return whose;
}

static const char *status_params(const struct ccatune_cca *cca)
{
	if (READ_ONCE(cca->has_params))
		return "own";
	return cca->initial && ccatune_setting(cca, CCATUNE_FOLLOW_INITIAL) ? "initial" :
									      "default";
}

static void status_put(struct seq_file *m, const char *name, const atomic64_t *count)
{
	seq_printf(m, "%s %llu\n", name, (u64)atomic64_read(count));
}

static void status_show_totals(struct seq_file *m, const struct status_file *of)
{
	const struct ens_table *t = of->table ? &of->table->ens : NULL;
	struct ccatune_cca *cca = of->cca;

	seq_printf(m, "module ccatune %s\n", CCATUNE_VERSION);
	seq_printf(m, "instance %016llx\n", cca->instance);
	seq_printf(m, "generation %llu\n", of->generation);
	seq_printf(m, "registry %s\n", t ? t->registry : "-");
	seq_printf(m, "channel %s\n", t ? t->channel : "-");
	seq_printf(m, "serial %llu\n", t ? t->serial : 0);
	seq_printf(m, "urgent %u\n", t ? READ_ONCE(t->urgent) : 0);
	seq_printf(m, "digest %s\n", t ? t->digest : "-");
	status_put(m, "rejected_writes", &cca->rejected_writes);
	seq_printf(m, "table %s\n", status_follows(cca));
	seq_printf(m, "parameters %s\n", status_params(cca));
	seq_printf(m, "flows %u\n", atomic_read(&cca->n_flows));
	status_put(m, "flows_started", &cca->flows_started);
	status_put(m, "allocation_fallbacks", &cca->allocation_fallbacks);
	seq_printf(m, "epochs_run %llu\n",
		   (u64)atomic64_read(&cca->epoch_ends[ENS_LOOKED_UP]) +
		   (u64)atomic64_read(&cca->epoch_ends[ENS_RAISED]) +
		   (u64)atomic64_read(&cca->epoch_ends[ENS_KEPT]));
	status_put(m, "looked_up", &cca->epoch_ends[ENS_LOOKED_UP]);
	status_put(m, "raised", &cca->epoch_ends[ENS_RAISED]);
	status_put(m, "kept", &cca->epoch_ends[ENS_KEPT]);
	status_put(m, "reoptimisations", &cca->reoptimisations);
}

/* If the table has no classes, its lines have no field `class`. */
static void status_put_class(struct seq_file *m, const struct ens_table *t, u32 class)
{
	if (t->n_classes)
		seq_printf(m, " class=%u", class);
}

static void status_show_delays(struct seq_file *m, const struct ccatune_table *table, u32 line)
{
	u32 class = line / table->groups, group = line % table->groups;
	const struct ens_class *k = table->ens.n_classes ? &table->ens.classes[class] : NULL;
	u64 counts[CCA_HISTOGRAM_BUCKETS];
	u64 total = 0;
	u32 i;

	for (i = 0; i < CCA_HISTOGRAM_BUCKETS; i++) {
		counts[i] = (u64)atomic64_read(&table->delays[line].bucket[i]);
		total += counts[i];
	}
	if (!total)
		return;
	seq_puts(m, "delay");
	status_put_class(m, &table->ens, class);
	seq_printf(m, " group=%s", status_groups[group]);
	if (k)
		seq_printf(m, " percentile=%u target_us=%u", k->percentile, k->queueing_delay_us);
	seq_printf(m, " samples=%llu", total);
	if (k)
		seq_printf(m, " at_percentile_us=%u",
			   cca_histogram_percentile_us(counts, k->percentile));
	seq_printf(m, " p50_us=%u p95_us=%u p99_us=%u\n",
		   cca_histogram_percentile_us(counts, 50),
		   cca_histogram_percentile_us(counts, 95),
		   cca_histogram_percentile_us(counts, 99));
}

static u64 status_sum(const atomic64_t *sum)
{
	return (u64)atomic64_read(sum);
}

static void status_show_row(struct seq_file *m, const struct ccatune_table *table, u32 line)
{
	u32 row = line / table->groups, group = line % table->groups;
	const struct ccatune_sums *sums = &table->sums[line];

	if (!status_sum(&sums->visits))
		return;
	seq_printf(m, "row state=%u", row / ens_state_rows(&table->ens));
	status_put_class(m, &table->ens, row % ens_state_rows(&table->ens));
	seq_printf(m, " group=%s visits=%llu lookups=%llu epochs=%llu", status_groups[group],
		   status_sum(&sums->visits), status_sum(&sums->lookups),
		   status_sum(&sums->epochs));
	seq_printf(m, " time_us=%llu bytes=%llu segments=%llu retransmitted=%llu",
		   status_sum(&sums->time_us), status_sum(&sums->bytes),
		   status_sum(&sums->segments), status_sum(&sums->retransmitted));
	seq_printf(m, " delay_samples=%llu delay_us=%llu within_target=%llu\n",
		   status_sum(&sums->samples), status_sum(&sums->delay_us),
		   status_sum(&sums->within));
}

static void *status_start(struct seq_file *m, loff_t *pos)
{
	struct status_file *of = m->private;

	if (!*pos) {
		ccatune_table_put(of->table);
		of->table = ccatune_table_get_own(of->cca, &of->generation);
	}
	return *pos < status_lines(of->table) ? of : NULL;
}

static void *status_next(struct seq_file *m, void *v, loff_t *pos)
{
	struct status_file *of = v;

	++*pos;
	return *pos < status_lines(of->table) ? of : NULL;
}

static void status_stop(struct seq_file *m, void *v)
{
}

static int status_show(struct seq_file *m, void *v)
{
	struct status_file *of = v;
	u32 line = (u32)m->index;
	u32 delays = status_delay_lines(of->table);

	if (!line)
		status_show_totals(m, of);
	else if (line <= delays)
		status_show_delays(m, of->table, line - 1);
	else
		status_show_row(m, of->table, line - 1 - delays);
	return 0;
}

static const struct seq_operations status_seq_ops = {
	.start = status_start,
	.next = status_next,
	.stop = status_stop,
	.show = status_show,
};

static int status_open(struct inode *inode, struct file *file)
{
	struct status_file *of = __seq_open_private(file, &status_seq_ops, sizeof(*of));

	if (!of)
		return -ENOMEM;
	of->cca = pde_data(inode);
	return 0;
}

static int status_release(struct inode *inode, struct file *file)
{
	struct status_file *of = ((struct seq_file *)file->private_data)->private;

	ccatune_table_put(of->table);
	return seq_release_private(inode, file);
}

const struct proc_ops ccatune_status_ops = {
	.proc_open = status_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = status_release,
};
