// SPDX-License-Identifier: GPL-2.0
/*
 * The file `ensemble`: the whole table as text, to write and to read.
 *
 * Writing: each open file collects its text, which is charged to the writer. The table is in
 * force when the write with the line `end` returns. That write takes no byte after `end`, so the
 * next write refuses any further text. After an error the open file stays failed. A text without
 * `end` is discarded and counted when the file is closed.
 *
 * Reading: the file shows the table that was written in this namespace, and is empty if there is
 * none. All reads of an open file show the same table, until it is read from its beginning again.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "internal.h"

#define ENSEMBLE_PIECE_BYTES 4096u

/* The text that an open file has collected. */
struct ensemble_text {
	struct ccatune_table *table;
	struct ens_parser parser;
	int error;		/* of the first write that failed */
	bool taken;
};

/* The private data of an open file's seq_file. */
struct ensemble_file {
	struct ccatune_cca *cca;
	struct ccatune_table *shown;
	struct mutex lock;	/* protects text */
	struct ensemble_text *text;
};

static struct ensemble_file *ensemble_file_of(const struct file *file)
{
	return ((struct seq_file *)file->private_data)->private;
}

/* --- reading ----------------------------------------------------------------- */

static void *ensemble_line(struct ensemble_file *of, loff_t pos)
{
	if (!of->shown || pos >= ens_lines(&of->shown->ens))
		return NULL;
	return of->shown;
}

static void *ensemble_start(struct seq_file *m, loff_t *pos)
{
	struct ensemble_file *of = m->private;
	u64 generation;

	if (!*pos) {
		ccatune_table_put(of->shown);
		of->shown = ccatune_table_get_own(of->cca, &generation);
	}
	return ensemble_line(of, *pos);
}

static void *ensemble_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return ensemble_line(m->private, *pos);
}

static void ensemble_stop(struct seq_file *m, void *v)
{
}

static int ensemble_show(struct seq_file *m, void *v)
{
	struct ccatune_table *table = v;
	size_t room;
	char *text;

	room = seq_get_buf(m, &text);
	/* If a line may not fit, report an overflow. seq_file then calls again with more room. */
	if (room < ENS_MAX_LINE)
		seq_commit(m, -1);
	else
		seq_commit(m, (int)ens_format_line(&table->ens, (u32)m->index, text, ENS_MAX_LINE));
	return 0;
}

static const struct seq_operations ensemble_seq_ops = {
	.start = ensemble_start,
	.next = ensemble_next,
	.stop = ensemble_stop,
	.show = ensemble_show,
};

/* --- writing ----------------------------------------------------------------- */

static struct ensemble_text *ensemble_text_new(u32 id)
{
	struct ensemble_text *text = kzalloc(sizeof(*text), GFP_KERNEL_ACCOUNT);

	if (!text)
		return NULL;
	text->table = ccatune_table_alloc();
	if (!text->table) {
		kfree(text);
		return NULL;
	}
	ens_parser_init(&text->parser, &text->table->ens, id);
	return text;
}

static int ensemble_give_values(struct ensemble_text *text)
{
	u32 *values = kvmalloc(ens_values_bytes(&text->table->ens), CCATUNE_GFP_LARGE);

	if (!values)
		return -ENOMEM;
	ens_give_values(&text->parser, values);
	return 0;
}

/*
 * Parses at most one piece. Returns the number of bytes taken, or an error. It is less than len
 * if the text ends within the piece.
 */
static int ensemble_parse(struct ensemble_text *text, const char *piece, u32 len)
{
	u32 at = 0;
	int taken, err;

	while (at < len && !ens_has_ended(&text->parser)) {
		taken = ens_parse(&text->parser, piece + at, len - at);
		if (taken < 0)
			return taken;
		at += (u32)taken;
		if (ens_needs_values(&text->parser)) {
			err = ensemble_give_values(text);
			if (err)
				return err;
		}
	}
	return (int)at;
}

/* Returns the number of bytes taken, or an error. */
static ssize_t ensemble_gather(struct ensemble_text *text, const char __user *from, size_t size)
{
	char *piece = kmalloc(ENSEMBLE_PIECE_BYTES, GFP_KERNEL);
	size_t at = 0, len;
	int taken = 0;

	if (!piece)
		return -ENOMEM;
	/* The parser refuses a text of more than 256 KiB, so there are at most 65 pieces. */
	while (at < size && taken >= 0 && !ens_has_ended(&text->parser)) {
		len = min_t(size_t, size - at, ENSEMBLE_PIECE_BYTES);
		if (copy_from_user(piece, from + at, len))
			taken = -EFAULT;
		else if (fatal_signal_pending(current))
			taken = -EINTR;
		else
			taken = ensemble_parse(text, piece, (u32)len);
		if (taken > 0)
			at += (size_t)taken;
		cond_resched();
	}
	kfree(piece);
	return taken < 0 ? taken : (ssize_t)at;
}

static int ensemble_apply(struct ccatune_cca *cca, struct ensemble_text *text)
{
	int err;

	if (ens_is_clear(&text->parser)) {
		ccatune_table_clear(cca);
		text->taken = true;
		return 0;
	}
	if (!ens_is_complete(&text->parser))
		return 0;
	err = ccatune_table_add_stats(text->table, cca);
	if (!err)
		err = ccatune_table_take(cca, text->table);
	if (err < 0)
		return err;
	if (err == 0)
		ccatune_table_put(text->table);
	text->table = NULL;
	text->taken = true;
	return 0;
}

static ssize_t ensemble_take(struct ensemble_file *of, const char __user *from, size_t size)
{
	struct ensemble_text *text = of->text;
	ssize_t taken;
	int err;

	if (text->error)
		return text->error;
	/* Text after `end` is an error. The table stays in force, but the open file has failed. */
	taken = text->taken ? -EINVAL : ensemble_gather(text, from, size);
	err = taken < 0 ? (int)taken : ensemble_apply(of->cca, text);
	if (!err)
		return taken;
	text->error = err;
	atomic64_inc(&of->cca->rejected_writes);
	return err;
}

static ssize_t ensemble_write(struct file *file, const char __user *from, size_t size,
			      loff_t *pos)
{
	struct ensemble_file *of = ensemble_file_of(file);
	ssize_t taken;

	if (!ccatune_may_write(file))
		return -EPERM;
	if (!size)
		return 0;
	mutex_lock(&of->lock);
	if (!of->text)
		of->text = ensemble_text_new(of->cca->algorithm->id);
	taken = of->text ? ensemble_take(of, from, size) : -ENOMEM;
	mutex_unlock(&of->lock);
	return taken;
}

/* --- the file ---------------------------------------------------------------- */

static int ensemble_open(struct inode *inode, struct file *file)
{
	struct ensemble_file *of;

	if ((file->f_mode & FMODE_WRITE) && !ccatune_may_write(file))
		return -EPERM;
	of = __seq_open_private(file, &ensemble_seq_ops, sizeof(*of));
	if (!of)
		return -ENOMEM;
	of->cca = pde_data(inode);
	mutex_init(&of->lock);
	return 0;
}

static int ensemble_release(struct inode *inode, struct file *file)
{
	struct ensemble_file *of = ensemble_file_of(file);
	struct ensemble_text *text = of->text;

	if (text) {
		if (!text->error && !text->taken)
			atomic64_inc(&of->cca->rejected_writes);
		ccatune_table_put(text->table);
		kfree(text);
	}
	ccatune_table_put(of->shown);
	return seq_release_private(inode, file);
}

const struct proc_ops ccatune_ensemble_ops = {
	.proc_open = ensemble_open,
	.proc_read = seq_read,
	.proc_write = ensemble_write,
	.proc_lseek = seq_lseek,
	.proc_release = ensemble_release,
};
