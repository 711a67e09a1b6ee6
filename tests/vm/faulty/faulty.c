// SPDX-License-Identifier: GPL-2.0
/*
 * Faults on purpose, one a load: shows that the debug kernel finds what it is built to find.
 *
 *   insmod faulty.ko fault=NAME
 *
 * A lock order or a read of freed memory ends the proving of locks: they come last.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#define FAULTY_BYTES 64u
#define FAULTY_LEAKS 32u

static char *fault = "";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "which one");

static DEFINE_SPINLOCK(faulty_first);
static DEFINE_SPINLOCK(faulty_second);
static int __rcu *faulty_shared;
static unsigned int faulty_shift = 40;

static int faulty_use_freed(void)
{
	char *memory = kmalloc(FAULTY_BYTES, GFP_KERNEL);

	if (!memory)
		return -ENOMEM;
	kfree(memory);
	OPTIMIZER_HIDE_VAR(memory);
	WRITE_ONCE(*memory, 1);
	return 0;
}

static int faulty_write_beyond(void)
{
	char *memory = kmalloc(FAULTY_BYTES, GFP_KERNEL);
	char *beyond = memory + FAULTY_BYTES;

	if (!memory)
		return -ENOMEM;
	OPTIMIZER_HIDE_VAR(beyond);
	WRITE_ONCE(*beyond, 1);
	kfree(memory);
	return 0;
}

static int faulty_leak(void)
{
	unsigned int i;
	void *memory;

	for (i = 0; i < FAULTY_LEAKS; i++) {
		memory = kzalloc(FAULTY_BYTES, GFP_KERNEL);
		if (!memory)
			return -ENOMEM;
		OPTIMIZER_HIDE_VAR(memory);
	}
	return 0;
}

static int faulty_sleep(void)
{
	spin_lock(&faulty_first);
	might_sleep();
	spin_unlock(&faulty_first);
	return 0;
}

static int faulty_order(void)
{
	spin_lock(&faulty_first);
	spin_lock(&faulty_second);
	spin_unlock(&faulty_second);
	spin_unlock(&faulty_first);
	spin_lock(&faulty_second);
	spin_lock(&faulty_first);
	spin_unlock(&faulty_first);
	spin_unlock(&faulty_second);
	return 0;
}

static int faulty_rcu(void)
{
	return rcu_dereference(faulty_shared) ? -EEXIST : 0;
}

static int faulty_processor(void)
{
	return smp_processor_id() < nr_cpu_ids ? 0 : -EINVAL;
}

static int faulty_shift_far(void)
{
	OPTIMIZER_HIDE_VAR(faulty_shift);
	return 1u << faulty_shift ? 0 : -EINVAL;
}

static int faulty_ask(void)
{
	void *memory = kmalloc(FAULTY_BYTES, GFP_KERNEL);

	kfree(memory);
	return memory ? 0 : -ENOMEM;
}

static const struct {
	const char *name;
	int (*commit)(void);
} faults[] = {
	{ "ask", faulty_ask },
	{ "rcu", faulty_rcu },
	{ "processor", faulty_processor },
	{ "sleep", faulty_sleep },
	{ "shift", faulty_shift_far },
	{ "leak", faulty_leak },
	{ "order", faulty_order },
	{ "freed", faulty_use_freed },
	{ "beyond", faulty_write_beyond },
};

static int __init faulty_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(faults); i++)
		if (!strcmp(fault, faults[i].name))
			return faults[i].commit();
	return -EINVAL;
}

static void __exit faulty_exit(void)
{
}

module_init(faulty_init);
module_exit(faulty_exit);
MODULE_DESCRIPTION("Faults that a debug kernel finds");
MODULE_LICENSE("GPL");
