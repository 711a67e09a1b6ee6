// SPDX-License-Identifier: GPL-2.0
/*
 * The files `parameters` and `settings`: one line per value, `name value min default max unit`. A
 * write consists of lines `name value`; `parameters` also takes the line `clear`. Each write()
 * takes effect as a whole or not at all. After an error the open file stays failed.
 *
 *   parameters   of the algorithm (params.def); flows use those that no table covers
 *   settings     of the host: delay classes, number of flows, use of the initial namespace's table
 */
#include <linux/uaccess.h>

#include "internal.h"
#include "files.h"

static const struct cca_setting_spec setting_specs[CCATUNE_SETTINGS] = {
	[CCATUNE_CLASS_SOURCE] = { "class_source", CCATUNE_CLASS_OF_NOTHING,
				   CCATUNE_CLASS_OF_PRIORITY, CCATUNE_CLASS_OF_MARK, "choice" },
	[CCATUNE_CLASS_MASK] = { "class_mask", 1, U32_MAX, U32_MAX, "mask" },
	[CCATUNE_DEFAULT_CLASS] = { "default_class", 0, 0, ENS_MAX_CLASSES - 1, "class" },
	[CCATUNE_FOLLOW_INITIAL] = { "follow_initial", 0, 1, 1, "choice" },
	[CCATUNE_MAX_FLOWS] = { "max_flows", 0, 1u << 20, 1u << 24, "flows" },
};

/* The private data of an open file's seq_file. */
struct values_file {
	struct ccatune_cca *cca;
	struct mutex lock;
	int error;
};

/*
 * Whether the process that opened the file has CAP_NET_ADMIN in the user namespace that owns the
 * network namespace.
 */
bool ccatune_may_write(const struct file *file)
{
	struct ccatune_cca *cca = ccatune_cca_of_file(file);

	return file_ns_capable(file, cca->net->user_ns, CAP_NET_ADMIN);
}

void ccatune_settings_init(struct ccatune_cca *cca)
{
	unsigned int i;

	for (i = 0; i < CCATUNE_SETTINGS; i++)
		cca->setting[i] = setting_specs[i].initial;
}

static int settings_set(struct ccatune_cca *cca, const char *text, u32 len)
{
	u32 values[CCATUNE_SETTINGS];
	unsigned int i;
	u32 follows, line_no;
	int err;

	mutex_lock(&cca->lock);
	memcpy(values, cca->setting, sizeof(values));
	follows = values[CCATUNE_FOLLOW_INITIAL];
	err = cca_parse_settings(setting_specs, CCATUNE_SETTINGS, values, text, len, &line_no);
	for (i = 0; !err && i < CCATUNE_SETTINGS; i++)
		WRITE_ONCE(cca->setting[i], values[i]);
	if (!err) {
		cca->generation++;
		/* Another table may be in force now. */
		if (follows != values[CCATUNE_FOLLOW_INITIAL])
			ccatune_recall(cca);
	}
	mutex_unlock(&cca->lock);
	return err;
}

static int values_take(struct ccatune_cca *cca, const char __user *from, size_t size,
		       int (*set)(struct ccatune_cca *cca, const char *text, u32 len))
{
	char *text;
	int err;

	if (size > CCATUNE_VALUES_MAX_BYTES)
		return -EFBIG;
	text = memdup_user(from, size);
	if (IS_ERR(text))
		return PTR_ERR(text);
	err = set(cca, text, (u32)size);
	kfree(text);
	return err;
}

static ssize_t values_write(struct file *file, const char __user *from, size_t size,
			    int (*set)(struct ccatune_cca *cca, const char *text, u32 len))
{
	struct values_file *of = ((struct seq_file *)file->private_data)->private;
	int err;

	if (!ccatune_may_write(file))
		return -EPERM;
	if (!size)
		return 0;
	mutex_lock(&of->lock);
	if (!of->error) {
		of->error = values_take(of->cca, from, size, set);
		if (of->error)
			atomic64_inc(&of->cca->rejected_writes);
	}
	err = of->error;
	mutex_unlock(&of->lock);
	return err ? err : (ssize_t)size;
}

static ssize_t parameters_write(struct file *file, const char __user *from, size_t size,
				loff_t *pos)
{
	return values_write(file, from, size, ccatune_params_set);
}

static ssize_t settings_write(struct file *file, const char __user *from, size_t size,
			      loff_t *pos)
{
	return values_write(file, from, size, settings_set);
}

static int parameters_show(struct seq_file *m, void *v)
{
	struct ccatune_cca *cca = ((struct values_file *)m->private)->cca;
	u32 values[CCA_MAX_PARAMS];

	rcu_read_lock();
	memcpy(values, ccatune_params(cca)->value, sizeof(values));
	rcu_read_unlock();
	ccatune_show_parameters(m, cca->algorithm->id, values);
	return 0;
}

static int settings_show(struct seq_file *m, void *v)
{
	struct ccatune_cca *cca = ((struct values_file *)m->private)->cca;
	unsigned int i;

	for (i = 0; i < CCATUNE_SETTINGS; i++)
		ccatune_show_setting(m, &setting_specs[i],
				     ccatune_setting(cca, (enum ccatune_setting)i));
	return 0;
}

static int values_open(struct inode *inode, struct file *file,
		       int (*show)(struct seq_file *m, void *v))
{
	struct values_file *of;
	int err;

	if ((file->f_mode & FMODE_WRITE) && !ccatune_may_write(file))
		return -EPERM;
	of = kzalloc(sizeof(*of), GFP_KERNEL_ACCOUNT);
	if (!of)
		return -ENOMEM;
	of->cca = pde_data(inode);
	mutex_init(&of->lock);
	err = single_open(file, show, of);
	if (err)
		kfree(of);
	return err;
}

static int parameters_open(struct inode *inode, struct file *file)
{
	return values_open(inode, file, parameters_show);
}

static int settings_open(struct inode *inode, struct file *file)
{
	return values_open(inode, file, settings_show);
}

static int values_release(struct inode *inode, struct file *file)
{
	kfree(((struct seq_file *)file->private_data)->private);
	return single_release(inode, file);
}

const struct proc_ops ccatune_parameters_ops = {
	.proc_open = parameters_open,
	.proc_read = seq_read,
	.proc_write = parameters_write,
	.proc_lseek = seq_lseek,
	.proc_release = values_release,
};

const struct proc_ops ccatune_settings_ops = {
	.proc_open = settings_open,
	.proc_read = seq_read,
	.proc_write = settings_write,
	.proc_lseek = seq_lseek,
	.proc_release = values_release,
};
