// SPDX-License-Identifier: GPL-2.0
/*
 * ccatune.ko: the tree /proc/net/ccatune/<cca>/ of each network namespace.
 *
 * This module makes the folder `ccatune` in each namespace. Each algorithm module registers its
 * own per-namespace operations, which call ccatune_net_init() and its counterparts here.
 * Therefore the kernel itself adds each algorithm to every namespace, existing or new.
 */
#include <linux/module.h>
#include <linux/random.h>

#include "internal.h"

static unsigned int ccatune_net_id;

struct ccatune_net {
	struct proc_dir_entry *dir;
};

struct ccatune_file {
	const char *name;
	umode_t mode;
	const struct proc_ops *ops;
};

static const struct ccatune_file ccatune_files[] = {
	{ "ensemble", 0644, &ccatune_ensemble_ops },
	{ "parameters", 0644, &ccatune_parameters_ops },
	{ "settings", 0644, &ccatune_settings_ops },
	{ "status", 0444, &ccatune_status_ops },
	{ "flows", 0444, &ccatune_flows_ops },
	{ "recording", 0600, &ccatune_recording_ops },
};

static int ccatune_make_files(struct net *net, struct ccatune_cca *cca)
{
	struct ccatune_net *own = net_generic(net, ccatune_net_id);
	const struct ccatune_file *file;
	unsigned int i;

	cca->dir = proc_net_mkdir(net, cca_name_of(cca->algorithm->id), own->dir);
	if (!cca->dir)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(ccatune_files); i++) {
		file = &ccatune_files[i];
		if (!proc_create_data(file->name, file->mode, cca->dir, file->ops, cca)) {
			proc_remove(cca->dir);
			return -ENOMEM;
		}
	}
	return 0;
}

/*
 * The kernel calls this for the initial namespace first, so algorithm->initial is set for all
 * others.
 */
int ccatune_net_init(struct net *net, struct ccatune_algorithm *algorithm)
{
	struct ccatune_cca *cca = kzalloc(sizeof(*cca), GFP_KERNEL_ACCOUNT);
	int err;

	if (!cca)
		return -ENOMEM;
	cca->algorithm = algorithm;
	cca->net = net;
	cca->initial = net_eq(net, &init_net) ? NULL : algorithm->initial;
	mutex_init(&cca->lock);
	xa_init_flags(&cca->flows, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	refcount_set(&cca->refs, 1);
	get_random_bytes(&cca->instance, sizeof(cca->instance));
	ccatune_settings_init(cca);
	err = ccatune_params_init(cca);
	if (err)
		goto err_free;
	err = ccatune_make_files(net, cca);
	if (err)
		goto err_params;
	if (net_eq(net, &init_net))
		algorithm->initial = cca;
	*(struct ccatune_cca **)net_generic(net, algorithm->net_id) = cca;
	return 0;

err_params:
	kfree(rcu_dereference_protected(cca->params, true));
err_free:
	kfree(cca);
	return err;
}
EXPORT_SYMBOL_GPL(ccatune_net_init);

/*
 * After this function nobody writes. The kernel then waits for a grace period, after which nobody
 * reads.
 */
void ccatune_net_pre_exit(struct net *net, struct ccatune_algorithm *algorithm)
{
	struct ccatune_cca *cca = ccatune_cca_of(net, algorithm);

	proc_remove(cca->dir);
	ccatune_recording_stop(cca);
	cca->leaving = ccatune_table_unpublish(cca);
}
EXPORT_SYMBOL_GPL(ccatune_net_pre_exit);

/* The ccatune_cca remains until its last flow has ended, because flows point to it. */
void ccatune_net_exit(struct net *net, struct ccatune_algorithm *algorithm)
{
	struct ccatune_cca *cca = ccatune_cca_of(net, algorithm);

	ccatune_table_put(cca->leaving);
	if (algorithm->initial == cca)
		algorithm->initial = NULL;
	WRITE_ONCE(*(struct ccatune_cca **)net_generic(net, algorithm->net_id), NULL);
	ccatune_cca_put(cca);
}
EXPORT_SYMBOL_GPL(ccatune_net_exit);

int ccatune_register(struct ccatune_algorithm *algorithm)
{
	const char *name = cca_name_of(algorithm->id);
	int err;

	if (!name)
		return -EINVAL;
	/*
	 * Linux charges the memory cgroup of the current task. Most connections begin in an
	 * interrupt, where no cgroup is charged. max_flows bounds their memory.
	 */
	algorithm->cache = kmem_cache_create(algorithm->cache_name, algorithm->flow_bytes, 0,
					     SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT, NULL);
	if (!algorithm->cache)
		return -ENOMEM;
	err = register_pernet_subsys(&algorithm->net_ops);
	if (err)
		kmem_cache_destroy(algorithm->cache);
	return err;
}
EXPORT_SYMBOL_GPL(ccatune_register);

void ccatune_unregister(struct ccatune_algorithm *algorithm)
{
	unregister_pernet_subsys(&algorithm->net_ops);
	/* RCU callbacks free flows into this cache. They must finish first. */
	rcu_barrier();
	kmem_cache_destroy(algorithm->cache);
}
EXPORT_SYMBOL_GPL(ccatune_unregister);

static int __net_init ccatune_dir_init(struct net *net)
{
	struct ccatune_net *own = net_generic(net, ccatune_net_id);

	own->dir = proc_net_mkdir(net, "ccatune", net->proc_net);
	return own->dir ? 0 : -ENOMEM;
}

static void __net_exit ccatune_dir_exit(struct net *net)
{
	struct ccatune_net *own = net_generic(net, ccatune_net_id);

	proc_remove(own->dir);
}

static struct pernet_operations ccatune_dir_ops = {
	.init = ccatune_dir_init,
	.exit = ccatune_dir_exit,
	.id = &ccatune_net_id,
	.size = sizeof(struct ccatune_net),
};

static int __init ccatune_init(void)
{
	return register_pernet_subsys(&ccatune_dir_ops);
}

static void __exit ccatune_exit(void)
{
	unregister_pernet_subsys(&ccatune_dir_ops);
	/* An RCU callback of this module may still have to free the last ccatune_cca. */
	rcu_barrier();
}

module_init(ccatune_init);
module_exit(ccatune_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("Parameters of TCP congestion control by network state: /proc/net/ccatune");
