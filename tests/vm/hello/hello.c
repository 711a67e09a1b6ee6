// SPDX-License-Identifier: GPL-2.0
/* The smallest module: shows that what is built here loads in the guest. */
#include <linux/module.h>

static int __init hello_init(void)
{
	pr_info("hello\n");
	return 0;
}

static void __exit hello_exit(void)
{
	pr_info("bye\n");
}

module_init(hello_init);
module_exit(hello_exit);
MODULE_DESCRIPTION("Says hello when loaded and bye when unloaded");
MODULE_LICENSE("GPL");
