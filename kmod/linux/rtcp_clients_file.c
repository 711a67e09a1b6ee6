// SPDX-License-Identifier: GPL-2.0
/*
 * The file `clients` of each R-TCP module: one line per client of the namespace. A write consists
 * of lines `forget ADDRESS` or `forget all`.
 */
#include <linux/inet.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <net/tcp.h>

#include "params_text.h"
#include "tcp_rtcp.h"
#include "rtcp_text.h"

#define RTCP_COMMANDS_MAX_BYTES 4096u

/* --- reading ----------------------------------------------------------------------- */

/* Each client has a line. *pos is the index of its entry in the table. */
static void *clients_find(const struct rtcp_table *t, loff_t *pos)
{
	loff_t n = (loff_t)t->clients.sets * RTCP_WAYS;

	for (; *pos < n; ++*pos)
		if (READ_ONCE(t->clients.entries[*pos].used))
			return &t->clients.entries[*pos];
	return NULL;
}

static void *clients_start(struct seq_file *m, loff_t *pos)
	__acquires(RCU)
{
	const struct ccatune_cca *cca = pde_data(file_inode(m->file));
	struct rtcp_table *t;

	rcu_read_lock();
	t = rtcp_table_seen(cca->net);
	m->private = t;
	return t ? clients_find(t, pos) : NULL;
}

static void *clients_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return clients_find(m->private, pos);
}

static void clients_stop(struct seq_file *m, void *v)
	__releases(RCU)
{
	rcu_read_unlock();
}

static void clients_put_address(struct seq_file *m, const struct rtcp_key *key)
{
	__be64 words[2] = { cpu_to_be64(key->high), cpu_to_be64(key->low) };
	__be32 address = htonl((u32)key->low);

	if (!key->high && key->low >> 32 == 0xffff)
		seq_printf(m, "%pI4", &address);
	else
		seq_printf(m, "%pI6c/%u", words, rtcp_ipv6_prefix_bits());
}

static int clients_show(struct seq_file *m, void *v)
{
	const struct rtcp_entry *entry = v;
	struct rtcp_table *t = m->private;
	struct rtcp_place *place = &t->places[entry - t->clients.entries];
	u64 now_us = tcp_clock_us(), age_us;
	struct rtcp_place counts;
	struct rtcp_entry e;

	/*
	 * With both locks the copy is consistent: no other client gets the entry, and no ACK
	 * changes it meanwhile.
	 */
	spin_lock_bh(&t->lock);
	spin_lock(&place->lock);
	e = *entry;
	counts = *place;
	spin_unlock(&place->lock);
	spin_unlock_bh(&t->lock);
	if (!e.used)
		return SEQ_SKIP;
	age_us = rtcp_entry_age_us(&e, now_us);
	/* Adds the tokens that have arrived since the last ACK, to the copy only. */
	rtcp_advance(&e.client, now_us);
	clients_put_address(m, &e.key);
	seq_printf(m, " class=%s", rtcp_class_name(e.client.kind));
	rtcp_show_client(m, &e.client);
	seq_printf(m, " flows=%u sharing=%u connections=%u min_rtt_us=%u age_us=%llu",
		   e.client.flows, e.client.sharing, e.connections, e.client.min_rtt_us, age_us);
	seq_printf(m, " segments=%llu retransmitted=%llu limited_segments=%llu",
		   counts.segments, counts.retransmitted, counts.limited_segments);
	seq_printf(m, " limited_retransmitted=%llu\n", counts.limited_retransmitted);
	return 0;
}

static const struct seq_operations clients_seq_ops = {
	.start = clients_start,
	.next = clients_next,
	.stop = clients_stop,
	.show = clients_show,
};

/* --- writing ----------------------------------------------------------------------- */

/* A command `forget`, for one client or for all. */
struct clients_command {
	struct rtcp_key key;
	bool all;
};

/* Parses an address, or an IPv6 prefix of the length that the file shows. */
static int clients_take_key(struct cca_word word, struct rtcp_key *key)
{
	const char *end = word.at + word.len;
	struct ens_cursor rest = { .end = end };
	u32 prefix_bits = 0;
	u8 address[16];

	if (in4_pton(word.at, (int)word.len, address, '/', &rest.at) > 0) {
		if (!ens_at_end(&rest))
			return -EINVAL;
		*key = rtcp_key_of_ipv4((u32)address[0] << 24 | (u32)address[1] << 16 |
					(u32)address[2] << 8 | address[3]);
		return 0;
	}
	if (in6_pton(word.at, (int)word.len, address, '/', &rest.at) <= 0)
		return -EINVAL;
	*key = rtcp_key_of_ipv6(address, rtcp_ipv6_prefix_bits());
	if (ens_at_end(&rest))
		return 0;
	if (ens_take_char(&rest, '/') || ens_take_u32(&rest, 0, 128, &prefix_bits) ||
	    !ens_at_end(&rest) || prefix_bits != rtcp_ipv6_prefix_bits())
		return -EINVAL;
	return 0;
}

/* Parses a line `forget all` or `forget ADDRESS`. */
static int clients_take_command(struct ens_cursor *line, struct clients_command *command)
{
	struct cca_word word;

	if (ens_take_key(line, "forget"))
		return -EINVAL;
	word = ens_take_word(line);
	if (!word.len || !ens_at_end(line))
		return -EINVAL;
	command->all = cca_word_is(word, "all");
	return command->all ? 0 : clients_take_key(word, &command->key);
}

/*
 * Call this with the table's lock held. place->recording is reset, so that a running recording
 * receives the client's new state.
 */
static void clients_forget_entry(struct rtcp_table *t, struct rtcp_entry *entry)
{
	struct rtcp_place *place = &t->places[entry - t->clients.entries];

	spin_lock(&place->lock);
	rtcp_clients_forget(entry);
	place->recording = NULL;
	spin_unlock(&place->lock);
}

static void clients_forget_all(struct rtcp_table *t)
{
	u32 n = t->clients.sets * RTCP_WAYS, i;

	for (i = 0; i < n; i++) {
		spin_lock_bh(&t->lock);
		if (t->clients.entries[i].used)
			clients_forget_entry(t, &t->clients.entries[i]);
		spin_unlock_bh(&t->lock);
		cond_resched();
	}
}

/*
 * Executes a command. t: NULL if the namespace has no table, and so no clients. only_check:
 * change nothing.
 */
static int clients_run(struct rtcp_table *t, const struct clients_command *command,
		       bool only_check)
{
	struct rtcp_entry *entry;

	if (command->all) {
		if (t && !only_check)
			clients_forget_all(t);
		return 0;
	}
	if (!t)
		return -ENOENT;
	spin_lock_bh(&t->lock);
	entry = rtcp_clients_find(&t->clients, &command->key);
	if (entry && !only_check)
		clients_forget_entry(t, entry);
	spin_unlock_bh(&t->lock);
	return entry ? 0 : -ENOENT;
}

/*
 * Executes all lines. A client that existed in the check may be gone at the execution, which is
 * then no error.
 */
static int clients_run_lines(struct rtcp_table *t, const char *text, size_t len, bool only_check)
{
	const char *end = text + len;
	struct clients_command command;
	struct ens_cursor line;
	int err;

	while (text != end) {
		line = cca_next_line(&text, end);
		err = clients_take_command(&line, &command);
		if (!err)
			err = clients_run(t, &command, only_check);
		if (err && only_check)
			return err;
	}
	return 0;
}

static bool clients_may_use(const struct file *file)
{
	const struct ccatune_cca *cca = pde_data(file_inode(file));

	return file_ns_capable(file, cca->net->user_ns, CAP_NET_ADMIN);
}

/* Executes all lines of a write, or none. */
static ssize_t clients_write(struct file *file, const char __user *from, size_t size, loff_t *pos)
{
	const struct ccatune_cca *cca = pde_data(file_inode(file));
	struct rtcp_table *t;
	char *text;
	int err;

	if (size > RTCP_COMMANDS_MAX_BYTES)
		return -EFBIG;
	text = memdup_user(from, size);
	if (IS_ERR(text))
		return PTR_ERR(text);
	t = rtcp_table_get(cca->net);
	err = clients_run_lines(t, text, size, true);
	if (!err)
		err = clients_run_lines(t, text, size, false);
	if (t)
		rtcp_table_put(t);
	kfree(text);
	return err ? err : (ssize_t)size;
}

/* Whoever opens the file needs the capability, also for reading, because addresses are private. */
static int clients_open(struct inode *inode, struct file *file)
{
	return clients_may_use(file) ? seq_open(file, &clients_seq_ops) : -EPERM;
}

static const struct proc_ops rtcp_clients_ops = {
	.proc_open = clients_open,
	.proc_read = seq_read,
	.proc_write = clients_write,
	.proc_lseek = seq_lseek,
	.proc_release = seq_release,
};

/*
 * For the init operation in an algorithm's net_ops: calls ccatune_net_init() and adds the file to
 * the folder.
 */
int rtcp_register_net(struct net *net, struct ccatune_algorithm *algorithm)
{
	int err = ccatune_net_init(net, algorithm);
	struct ccatune_cca *cca;

	if (err)
		return err;
	cca = ccatune_cca_of(net, algorithm);
	if (proc_create_data("clients", 0600, cca->dir, &rtcp_clients_ops, cca))
		return 0;
	/* No socket uses the namespace yet, so no grace period is needed. */
	ccatune_net_pre_exit(net, algorithm);
	ccatune_net_exit(net, algorithm);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(rtcp_register_net);
