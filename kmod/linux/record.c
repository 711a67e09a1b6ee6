// SPDX-License-Identifier: GPL-2.0
/*
 * The file `recording`: the inputs of the core and its decisions (kmod/core/recording.h), for
 * flows that begin while the recording runs.
 *
 *   start N   allocate N records and begin; this discards the last recording
 *   stop      end; the recording can then be read
 *   clear     free the memory
 *
 * Recording is off until it is started. The header field `lost` counts the records for which
 * there was no room. A replay refuses a recording that lost any.
 */
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "files.h"

#define RECORDING_KNOWN 64u			/* size of the two lists below; a power of two */
#define RECORDING_MAX_COMMAND 32u

struct ccatune_recording {
	struct rec_record *records;
	u32 size;
	u32 first;		/* the recording includes flows from this number on */
	atomic64_t next;	/* number of records; those beyond size are lost */
	spinlock_t lock;	/* protects the fields below */
	u64 known_tables[RECORDING_KNOWN];
	u32 known_params[RECORDING_KNOWN];
	u32 n_tables, n_params;
};

static atomic_t recording_flows;

/* Returns a new number for a flow, which is never 0. */
u32 ccatune_recording_number(void)
{
	u32 number = (u32)atomic_inc_return(&recording_flows);

	return number ? number : (u32)atomic_inc_return(&recording_flows);
}

struct ccatune_recording *ccatune_recording_with(const struct ccatune_flow *flow)
{
	struct ccatune_recording *r = rcu_dereference(flow->cca->recording);

	/* Compare the difference, because the numbers wrap. */
	return r && (s32)(flow->recorded_as - r->first) >= 0 ? r : NULL;
}
EXPORT_SYMBOL_GPL(ccatune_recording_with);

/* Reserves n consecutive records and returns the first, or NULL if there is no room. */
static struct rec_record *recording_reserve(struct ccatune_recording *r, u32 n)
{
	u64 end = (u64)atomic64_add_return(n, &r->next);

	return end <= r->size ? &r->records[end - n] : NULL;
}

void ccatune_record(struct ccatune_recording *recording, struct rec_record *record)
{
	struct rec_record *place = recording_reserve(recording, 1);

	if (!place)
		return;
	rec_finish(record);
	*place = *record;
}
EXPORT_SYMBOL_GPL(ccatune_record);

static bool recording_knows_table(struct ccatune_recording *r, u64 generation)
{
	u32 i;

	for (i = 0; i < min(r->n_tables, RECORDING_KNOWN); i++)
		if (r->known_tables[i] == generation)
			return true;
	r->known_tables[r->n_tables++ % RECORDING_KNOWN] = generation;
	return false;
}

static bool recording_knows_params(struct ccatune_recording *r, u32 version)
{
	u32 i;

	for (i = 0; i < min(r->n_params, RECORDING_KNOWN); i++)
		if (r->known_params[i] == version)
			return true;
	r->known_params[r->n_params++ % RECORDING_KNOWN] = version;
	return false;
}

void ccatune_record_table(struct ccatune_recording *recording, const struct ccatune_table *table)
{
	struct rec_record *place;

	if (!table)
		return;
	/*
	 * The maximum length of its text bounds a table to about 10^4 records, which are written
	 * once.
	 */
	spin_lock_bh(&recording->lock);
	if (!recording_knows_table(recording, table->ens.generation)) {
		place = recording_reserve(recording, rec_table_records(&table->ens));
		ccatune_fill_table(place, &table->ens);
	}
	spin_unlock_bh(&recording->lock);
}
EXPORT_SYMBOL_GPL(ccatune_record_table);

void ccatune_record_params(struct ccatune_recording *recording,
			   const struct ccatune_params *params, u32 id)
{
	spin_lock_bh(&recording->lock);
	if (!recording_knows_params(recording, params->version))
		ccatune_fill_params(recording_reserve(recording, 1), params->value, id,
				    params->version);
	spin_unlock_bh(&recording->lock);
}
EXPORT_SYMBOL_GPL(ccatune_record_params);

/* --- commands ---------------------------------------------------------------- */

static void recording_free(struct ccatune_recording *r)
{
	if (!r)
		return;
	kvfree(r->records);
	kfree(r);
}

static struct ccatune_recording *recording_new(u32 size)
{
	struct ccatune_recording *r = kzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT);

	if (!r)
		return NULL;
	r->records = kvcalloc(size, sizeof(*r->records), CCATUNE_GFP_LARGE);
	if (!r->records) {
		kfree(r);
		return NULL;
	}
	r->size = size;
	spin_lock_init(&r->lock);
	return r;
}

/*
 * Ends the recording. Afterwards no flow writes to it, so it may be read or freed. The caller
 * holds cca->lock.
 */
static void recording_end(struct ccatune_cca *cca)
{
	struct ccatune_recording *r;

	r = rcu_replace_pointer(cca->recording, NULL, lockdep_is_held(&cca->lock));
	if (!r)
		return;
	synchronize_rcu();
	recording_free(cca->recorded);
	cca->recorded = r;
}

static void recording_clear(struct ccatune_cca *cca)
{
	recording_end(cca);
	recording_free(cca->recorded);
	cca->recorded = NULL;
}

void ccatune_recording_stop(struct ccatune_cca *cca)
{
	mutex_lock(&cca->lock);
	recording_clear(cca);
	mutex_unlock(&cca->lock);
}

static int recording_begin(struct ccatune_cca *cca, u32 size)
{
	struct ccatune_recording *r;

	recording_clear(cca);
	r = recording_new(size);
	if (!r)
		return -ENOMEM;
	r->first = ccatune_recording_number();
	rcu_assign_pointer(cca->recording, r);
	return 0;
}

static int recording_command(struct ccatune_cca *cca, const char *text, u32 len)
{
	u32 size = 0;
	int command = ccatune_take_command(text, len, &size);

	if (command == CCATUNE_START)
		return recording_begin(cca, size);
	if (command == CCATUNE_STOP)
		recording_end(cca);
	else if (command == CCATUNE_CLEAR)
		recording_clear(cca);
	return command < 0 ? command : 0;
}

static ssize_t recording_write(struct file *file, const char __user *from, size_t size,
			       loff_t *pos)
{
	struct ccatune_cca *cca = ccatune_cca_of_file(file);
	char text[RECORDING_MAX_COMMAND];
	int err;

	if (!ccatune_may_write(file))
		return -EPERM;
	if (size > sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, size))
		return -EFAULT;
	mutex_lock(&cca->lock);
	err = recording_command(cca, text, (u32)size);
	mutex_unlock(&cca->lock);
	return err ? err : (ssize_t)size;
}

/* --- reading ----------------------------------------------------------------- */

static ssize_t recording_copy(const struct ccatune_cca *cca, char __user *to, size_t size,
			      loff_t *pos)
{
	const struct ccatune_recording *r = cca->recorded;
	struct rec_header h;
	size_t bytes;

	ccatune_fill_header(&h, cca->algorithm->id, (u64)atomic64_read(&r->next), r->size);
	bytes = h.records * sizeof(struct rec_record);
	if (*pos < sizeof(h))
		return simple_read_from_buffer(to, size, pos, &h, sizeof(h));
	/* The records begin after the header. */
	*pos -= sizeof(h);
	size = (size_t)simple_read_from_buffer(to, size, pos, r->records, bytes);
	*pos += sizeof(h);
	return (ssize_t)size;
}

static ssize_t recording_read(struct file *file, char __user *to, size_t size, loff_t *pos)
{
	struct ccatune_cca *cca = ccatune_cca_of_file(file);
	ssize_t result;

	mutex_lock(&cca->lock);
	if (rcu_access_pointer(cca->recording))
		result = -EBUSY;
	else
		result = cca->recorded ? recording_copy(cca, to, size, pos) : 0;
	mutex_unlock(&cca->lock);
	return result;
}

static int recording_open(struct inode *inode, struct file *file)
{
	return ccatune_may_write(file) ? 0 : -EPERM;
}

const struct proc_ops ccatune_recording_ops = {
	.proc_open = recording_open,
	.proc_read = recording_read,
	.proc_write = recording_write,
	.proc_lseek = default_llseek,
};
