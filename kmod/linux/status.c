// SPDX-License-Identifier: GPL-2.0
/*
 * The file `status`: lines of `name value`, then a `delay` line per class and a `row` line per
 * row. There is one such line for each group of flows that has used the class or the row. The
 * sums belong to the table, so they start at 0 with the next table. The initial namespace's file
 * has separate lines, `flows=followers`, for the flows of namespaces that follow its table.
 */
#include "internal.h"
#include "show.h"

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

static void status_show_totals(struct seq_file *m, const struct status_file *of)
{
	struct ccatune_cca *cca = of->cca;
	struct ccatune_status s = {
		.instance = cca->instance,
		.generation = of->generation,
		.rejected_writes = (u64)atomic64_read(&cca->rejected_writes),
		.flows = (u64)atomic_read(&cca->n_flows),
		.table = of->table ? &of->table->ens : NULL,
		.whose_table = status_follows(cca),
		.whose_params = status_params(cca),
		.counters = &cca->counters,
		.id = cca->algorithm->id,
	};

	ccatune_show_totals(m, &s);
}

/* Line 0: of the first class, or of the first row after the last class. */
static void status_show_line(struct seq_file *m, const struct ccatune_table *table, u32 line)
{
	u32 delays = status_delay_lines(table), groups = table->groups;

	if (line < delays)
		ccatune_show_delays(m, &table->ens, line / groups, line % groups,
				    &table->delays[line]);
	else
		ccatune_show_sums(m, &table->ens, (line - delays) / groups, line % groups,
				  &table->sums[line - delays]);
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

	if (line)
		status_show_line(m, of->table, line - 1);
	else
		status_show_totals(m, of);
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
