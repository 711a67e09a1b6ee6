// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_rtcp.ko: the clients that the modules of R-TCP share, one table a network namespace, and
 * the file `clients` in the folder of each. Memory is taken when the namespace is made (when
 * the module is loaded, for those that are there), and never more:
 *
 *   sets             of the initial namespace's table, a power of two: 8 clients each
 *   namespace_sets   of any other's; 0: none, and each connection has a client of its own
 *   keep_s           how long a client outlives its connections
 *   ipv6_prefix      bits of an IPv6 address that tell clients apart
 */
#include <linux/inet.h>
#include <linux/inet_diag.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/proc_fs.h>
#include <linux/random.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <net/ipv6.h>

#include "sock.h"
#include "tcp_rtcp.h"
#include "params_text.h"

#define RTCP_DEFAULT_SETS 2048u			/* 16384 clients, 5 MiB */
#define RTCP_COMMANDS_MAX_BYTES 4096u
#define RTCP_DEFAULT_NAMESPACE_SETS 64u		/* 512 clients, 160 KiB */

static unsigned int sets = RTCP_DEFAULT_SETS;
module_param(sets, uint, 0444);
MODULE_PARM_DESC(sets, "8 clients each, of the initial namespace; rounded up to a power of two");

static unsigned int namespace_sets = RTCP_DEFAULT_NAMESPACE_SETS;
module_param(namespace_sets, uint, 0444);
MODULE_PARM_DESC(namespace_sets, "8 clients each, of any other namespace; 0: no table");

static unsigned int keep_s = RTCP_KEEP_US / USEC_PER_SEC;
module_param(keep_s, uint, 0444);
MODULE_PARM_DESC(keep_s, "time for which a client outlives its connections");

static unsigned int ipv6_prefix = RTCP_IPV6_PREFIX_BITS;
module_param(ipv6_prefix, uint, 0444);
MODULE_PARM_DESC(ipv6_prefix, "bits of an IPv6 address that tell clients apart");

static unsigned int rtcp_net_id;

struct rtcp_net {
	struct rtcp_table __rcu *table;		/* NULL: none */
};

/* --- tables ------------------------------------------------------------------------ */

/* NULL: no memory, or none is asked for. */
static struct rtcp_table *rtcp_table_new(unsigned int asked_sets)
{
	u32 n_sets, n;
	struct rtcp_table *t;
	u32 i;

	if (!asked_sets)
		return NULL;
	n_sets = (u32)roundup_pow_of_two(min(asked_sets, RTCP_MOST_SETS));
	n = n_sets * RTCP_WAYS;
	/* At most 2^27 x 320 bytes: more than the kernel gives, or a 32-bit one can count. */
	t = kvzalloc(size_add(sizeof(*t), array_size(n, sizeof(*t->places) +
							sizeof(struct rtcp_entry))),
		     GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!t)
		return NULL;
	refcount_set(&t->refs, 1);
	spin_lock_init(&t->lock);
	for (i = 0; i < n; i++)
		spin_lock_init(&t->places[i].lock);
	rtcp_clients_init(&t->clients, (struct rtcp_entry *)(t->places + n), n_sets,
			  get_random_u64(), (u64)keep_s * USEC_PER_SEC);
	return t;
}

static void rtcp_table_put(struct rtcp_table *t)
{
	if (refcount_dec_and_test(&t->refs))
		kvfree_rcu(t, rcu);
}

/* With a reference; NULL where there is none, or no more. */
static struct rtcp_table *rtcp_table_get(const struct net *net)
{
	const struct rtcp_net *own = net_generic(net, rtcp_net_id);
	struct rtcp_table *t;

	rcu_read_lock();
	t = rcu_dereference(own->table);
	if (t && !refcount_inc_not_zero(&t->refs))
		t = NULL;
	rcu_read_unlock();
	return t;
}

/* --- members ----------------------------------------------------------------------- */

static struct rtcp_key rtcp_key_of(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return rtcp_key_of_ipv6(sk->sk_v6_daddr.s6_addr, ipv6_prefix);
#endif
	return rtcp_key_of_ipv4(ntohl(inet_sk(sk)->inet_daddr));
}

/* The connection's client, as it is: of its address, or of its own. */
void rtcp_member_join(struct rtcp_member *m, const struct sock *sk, u64 now_us)
{
	struct rtcp_table *t = rtcp_table_get(sock_net(sk));
	struct rtcp_key key = rtcp_key_of(sk);

	m->table = t;
	m->entry = NULL;
	if (t) {
		spin_lock_bh(&t->lock);
		m->entry = rtcp_clients_join(&t->clients, &key, now_us);
		spin_unlock_bh(&t->lock);
	}
	if (m->entry)
		return;
	if (t)
		rtcp_table_put(t);
	m->table = NULL;
	rtcp_client_init(&m->own, now_us);
}
EXPORT_SYMBOL_GPL(rtcp_member_join);

/* The client is the connection's own from here on; its lock is not held. */
void rtcp_member_part(struct rtcp_member *m)
{
	struct rtcp_entry *entry = m->entry;
	struct rtcp_table *t = m->table;

	if (!entry)
		return;
	WRITE_ONCE(m->entry, NULL);
	m->table = NULL;
	spin_lock_bh(&t->lock);
	rtcp_clients_leave(entry);
	spin_unlock_bh(&t->lock);
	rtcp_table_put(t);
}
EXPORT_SYMBOL_GPL(rtcp_member_part);

/* The client's lock is held. NULL: what comes now is part of no recording. */
void rtcp_member_tell(struct rtcp_member *m, struct ccatune_recording *recording)
{
	struct rec_record r;
	u32 part;

	rtcp_member_place(m)->recording = recording;
	for (part = 0; recording && part < RTCP_REC_PARTS; part++) {
		rec_init(&r, (enum rec_kind)RTCP_REC_CLIENT, 0, 0);
		rtcp_put_client(&r, &m->entry->client, rtcp_member_number(m), part);
		ccatune_record(recording, &r);
	}
}
EXPORT_SYMBOL_GPL(rtcp_member_tell);

/* The connection ends, or takes another algorithm; f is freed. */
void rtcp_kflow_end(struct sock *sk, struct rtcp_kflow *f, struct rtcp_flow *flow)
{
	struct rtcp_sock *own = inet_csk_ca(sk);
	struct ccatune_recording *recording;
	struct rtcp_client *c;
	struct rec_record r;

	rcu_read_lock();
	recording = ccatune_recording(&f->head);
	c = rtcp_member_lock(&f->member, recording, false);
	rtcp_flow_leaves(flow, c);
	if (recording) {
		rec_init(&r, (enum rec_kind)RTCP_REC_LEAVE, f->head.recorded_as,
			 tcp_sk(sk)->tcp_mstamp);
		rtcp_kflow_record(f, flow, c, recording, &r);
	}
	rtcp_member_unlock(&f->member);
	rcu_read_unlock();
	rtcp_member_part(&f->member);
	own->flow = NULL;
	ccatune_flow_end(&f->head);
}
EXPORT_SYMBOL_GPL(rtcp_kflow_end);

/*
 * As ccatune_read_tx_start(). A flow that rests, because all of its data was acknowledged,
 * starts whatever the kernel takes the application for.
 */
bool rtcp_read_tx_start(const struct sock *sk, const struct rtcp_flow *flow,
			enum cca_event_kind *kind)
{
	if (ccatune_read_tx_start(sk, kind))
		return true;
	*kind = CCA_TRANSFER_STARTED;
	return ccatune_is_tx_start(sk) && !flow->active;
}
EXPORT_SYMBOL_GPL(rtcp_read_tx_start);

/* --- what a flow says of itself ---------------------------------------------------- */

static const char *const rtcp_classes[] = {
	[RTCP_UNKNOWN] = "unknown",
	[RTCP_LIMITED] = "limited",
	[RTCP_CLEARED] = "cleared",
	[RTCP_SPLIT] = "split",
};

static const char *const rtcp_phases[] = {
	[RTCP_FREE] = "free",
	[RTCP_CAPPED] = "capped",
	[RTCP_PROBING] = "probing",
	[RTCP_REFILLING] = "refilling",
	[RTCP_LIFTED] = "lifted",
	[RTCP_VERIFYING] = "verifying",
};

/* Of a flow that may part from it meanwhile: under RCU, the memory stays. */
static const struct rtcp_client *rtcp_client_seen(const struct rtcp_kflow *f)
{
	const struct rtcp_entry *entry = READ_ONCE(f->member.entry);

	return entry ? &entry->client : &f->member.own;
}

static const char *rtcp_mode(const struct rtcp_client *c, const struct rtcp_flow *flow)
{
	u8 phase = READ_ONCE(flow->phase);

	if (phase == RTCP_FREE && READ_ONCE(c->kind) == RTCP_UNKNOWN && READ_ONCE(c->fit.count))
		return "estimating";
	return phase < ARRAY_SIZE(rtcp_phases) ? rtcp_phases[phase] : "-";
}

void rtcp_view(const struct rtcp_kflow *f, const struct rtcp_flow *flow,
	       const struct rtcp_ens *ens, const struct rtcp_params *params,
	       struct ccatune_view *view)
{
	const struct rtcp_client *c = rtcp_client_seen(f);

	view->clock = &ens->flow.clock;
	view->params = params;
	view->mode = rtcp_mode(c, flow);
	view->min_rtt_us = READ_ONCE(c->min_rtt_us);
	view->queueing_delay_us = READ_ONCE(f->queueing_delay_us);
}
EXPORT_SYMBOL_GPL(rtcp_view);

/* B, R and tokens are 0 while no limiter is known. */
static void rtcp_show_client(struct seq_file *m, const struct rtcp_client *c)
{
	bool limited = c->kind == RTCP_LIMITED;

	seq_printf(m, " bucket_bytes=%llu limit_bytes_per_s=%u tokens_bytes=%llu",
		   limited ? c->bucket_bytes : 0, limited ? c->bytes_per_s : 0,
		   limited ? rtcp_tokens(c) : 0);
}

/*
 * The numbers of a line may be of two moments, as those of any flow. Without the client's lock:
 * what is computed from a copy stays within the bounds that the core states for any.
 */
void rtcp_show(struct seq_file *m, const struct rtcp_kflow *f, const struct rtcp_flow *flow,
	       const struct rtcp_params *params)
{
	struct rtcp_client c = data_race(*rtcp_client_seen(f));
	struct rtcp_flow own = data_race(*flow);
	u32 cap_pkts = rtcp_cap_pkts(&own, &c, params);

	seq_printf(m, " limiter=%s", rtcp_classes[c.kind & 3]);
	rtcp_show_client(m, &c);
	if (cap_pkts == RTCP_NO_CAP_PKTS)
		seq_puts(m, " cap_pkts=-");
	else
		seq_printf(m, " cap_pkts=%u", cap_pkts);
	seq_printf(m, " sharing=%u shared=%u", c.sharing, READ_ONCE(f->member.entry) != NULL);
}
EXPORT_SYMBOL_GPL(rtcp_show);

/* With the socket's lock; the client's is not held: what another flow writes may be half new. */
void rtcp_copy_info(struct sock *sk, const struct rtcp_kflow *f, const struct rtcp_flow *flow,
		    const struct rtcp_params *params)
{
	struct rtcp_sock *own = inet_csk_ca(sk);
	const struct rtcp_client *c = rtcp_client_seen(f);
	u32 gain = 0;

	if (flow->phase == RTCP_CAPPED)
		gain = 1000;
	else if (flow->phase == RTCP_PROBING)
		gain = 1000 + params->probe_gain_permille;
	else if (flow->phase == RTCP_REFILLING)
		gain = 1000 * 1000 / (1000 + params->probe_gain_permille);
	WRITE_ONCE(own->limit_bytes_per_s,
		   READ_ONCE(c->kind) == RTCP_LIMITED ? READ_ONCE(c->bytes_per_s) : 0);
	WRITE_ONCE(own->min_rtt_us, READ_ONCE(c->min_rtt_us));
	WRITE_ONCE(own->gain_permille, gain);
	WRITE_ONCE(own->sharing, READ_ONCE(c->sharing));
}
EXPORT_SYMBOL_GPL(rtcp_copy_info);

/*
 * In the container that bbr uses, which is the one with a rate in it: `ss -i` prints R as
 * bandwidth (0: no limiter is known), the minimum RTT, the gain of the cap (0: there is none)
 * and, as the gain of cwnd, the flows that the cap is divided among.
 *
 * Asked for without the socket's lock, while the socket may be changed over to another
 * algorithm, whose private area this then is: whatever stands there is read as numbers.
 */
size_t rtcp_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct rtcp_sock *own = inet_csk_ca(sk);

	if (!(ext & (1 << (INET_DIAG_BBRINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(info, 0, sizeof(*info));
	info->bbr.bbr_bw_lo = READ_ONCE(own->limit_bytes_per_s);
	info->bbr.bbr_min_rtt = READ_ONCE(own->min_rtt_us);
	info->bbr.bbr_pacing_gain = (u32)cca_div((u64)READ_ONCE(own->gain_permille) << 8, 1000);
	info->bbr.bbr_cwnd_gain = READ_ONCE(own->sharing) << 8;
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}
EXPORT_SYMBOL_GPL(rtcp_get_info);

/* --- the file `clients` ------------------------------------------------------------ */

/* A line a client: the place in the file is that in the table. */
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
	const struct rtcp_net *own = net_generic(cca->net, rtcp_net_id);
	struct rtcp_table *t;

	rcu_read_lock();
	t = rcu_dereference(own->table);
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
		seq_printf(m, "%pI6c/%u", words, min(ipv6_prefix, 128u));
}

static int clients_show(struct seq_file *m, void *v)
{
	const struct rtcp_entry *entry = v;
	struct rtcp_table *t = m->private;
	struct rtcp_place *place = &t->places[entry - t->clients.entries];
	u64 now_us = tcp_clock_us(), age_us;
	struct rtcp_entry e;

	/* As one: neither given to another client meanwhile, nor in the middle of an ACK. */
	spin_lock_bh(&t->lock);
	spin_lock(&place->lock);
	e = *entry;
	spin_unlock(&place->lock);
	spin_unlock_bh(&t->lock);
	if (!e.used)
		return SEQ_SKIP;
	age_us = rtcp_entry_age_us(&e, now_us);
	/* Tokens have come since: it is a copy. */
	rtcp_advance(&e.client, now_us);
	clients_put_address(m, &e.key);
	seq_printf(m, " class=%s", rtcp_classes[e.client.kind & 3]);
	rtcp_show_client(m, &e.client);
	seq_printf(m, " flows=%u sharing=%u connections=%u min_rtt_us=%u age_us=%llu\n",
		   e.client.flows, e.client.sharing, e.connections, e.client.min_rtt_us, age_us);
	return 0;
}

static const struct seq_operations clients_seq_ops = {
	.start = clients_start,
	.next = clients_next,
	.stop = clients_stop,
	.show = clients_show,
};

/* What a write to `clients` forgets: a client, or all of them. */
struct clients_command {
	struct rtcp_key key;
	bool all;
};

/* An address, or an IPv6 prefix of the length that the file shows. */
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
	*key = rtcp_key_of_ipv6(address, ipv6_prefix);
	if (ens_at_end(&rest))
		return 0;
	if (ens_take_char(&rest, '/') || ens_take_u32(&rest, 0, 128, &prefix_bits) ||
	    !ens_at_end(&rest) || prefix_bits != min(ipv6_prefix, 128u))
		return -EINVAL;
	return 0;
}

/* A line `forget all` or `forget ADDRESS`. */
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

/* With the table's lock. A recording that goes on is given the client's state anew. */
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

/* t: NULL where the namespace has no table, and thus no client. only_check: nothing is changed. */
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

/* A client that is there when the lines are checked may be gone when they are carried out. */
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

/* All lines of a write are carried out, or none. */
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

/* The capability is that of who opens the file, to read as to write: addresses are private. */
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

/* Of an algorithm's own net_ops: ccatune_net_init(), and the file in its folder. */
int rtcp_register_net(struct net *net, struct ccatune_algorithm *algorithm)
{
	int err = ccatune_net_init(net, algorithm);
	struct ccatune_cca *cca;

	if (err)
		return err;
	cca = ccatune_cca_of(net, algorithm);
	if (proc_create_data("clients", 0600, cca->dir, &rtcp_clients_ops, cca))
		return 0;
	/* No socket uses it yet. */
	ccatune_net_pre_exit(net, algorithm);
	ccatune_net_exit(net, algorithm);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(rtcp_register_net);

/* --- the module -------------------------------------------------------------------- */

/* A namespace for whose table there is no memory does without; the module is not loaded then. */
static int __net_init rtcp_net_init(struct net *net)
{
	struct rtcp_net *own = net_generic(net, rtcp_net_id);
	bool is_initial = net_eq(net, &init_net);
	struct rtcp_table *t = rtcp_table_new(is_initial ? sets : namespace_sets);

	if (!t && is_initial && sets)
		return -ENOMEM;
	RCU_INIT_POINTER(own->table, t);
	return 0;
}

static void __net_exit rtcp_net_exit(struct net *net)
{
	struct rtcp_net *own = net_generic(net, rtcp_net_id);
	struct rtcp_table *t = rcu_replace_pointer(own->table, NULL, true);

	if (t)
		rtcp_table_put(t);
}

static struct pernet_operations rtcp_net_ops = {
	.init = rtcp_net_init,
	.exit = rtcp_net_exit,
	.id = &rtcp_net_id,
	.size = sizeof(struct rtcp_net),
};

static int __init rtcp_init(void)
{
	return register_pernet_subsys(&rtcp_net_ops);
}

static void __exit rtcp_exit(void)
{
	unregister_pernet_subsys(&rtcp_net_ops);
}

module_init(rtcp_init);
module_exit(rtcp_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(CCATUNE_VERSION);
MODULE_DESCRIPTION("R-TCP: the clients behind rate limiters that its algorithms share");
