// SPDX-License-Identifier: MIT
/*
 * record CCA SEED EVENTS FILE: makes a recording of invented events, so that the replayer is
 * tested without a kernel. Three flows take turns; tables and parameters change on the way.
 * The replayer itself (replay.h) gives the outcomes.
 *
 * R-TCP: flows 1 and 2 share a client behind a limiter, which ACKs of flows that are not
 * recorded reach too; flow 3 has a client of its own.
 */
#include "replay.h"

#define FLOWS 3u
#define SHARED_CLIENT 7u		/* any number */
#define FAST_PKTS_PER_S 4000u
#define LIMIT_PKTS_PER_S 300u		/* of each flow */
#define FAST_US 700000u
#define APART_US 8000000u		/* then the second flow loses nothing more */
#define COLUMNS 4u
#define TRACKING_COLUMN 3u		/* of an algorithm that tracks its target */
#define TRACKING_GAIN_PERMILLE 2000u

static struct replay r;
static FILE *file;
static u64 dice, now_us = SECOND;
static struct ens_table table;
static u32 values[2 * 4 * 3 * COLUMNS], params[CCA_MAX_PARAMS], version;
static struct cca_window window[FLOWS];
static u32 delivered[FLOWS];
static u64 acked_us[FLOWS];		/* the flow's last ACK */

static bool learns_from_losses(u32 id)
{
	return id == CCA_ID_bbr3 || id == CCA_ID_rtcp_bbr3;
}

static bool is_bbr(u32 id)
{
	return id == CCA_ID_bbr || id == CCA_ID_rtcp_bbr || learns_from_losses(id);
}

static u32 roll(u32 below)
{
	dice = dice * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(dice >> 33) % below;
}

static void put(const struct rec_record *rec)
{
	fwrite(rec, sizeof(*rec), 1, file);
	r.header.records++;
}

/* A record that the replayer takes over, too. */
static void put_known(struct rec_record *rec)
{
	rec_finish(rec);
	if (replay_record(&r, r.header.records, rec))
		exit(3);
	put(rec);
}

/* An event of a flow, with what the replayer makes of it; returns the core's result. */
static u32 put_event(const struct rec_record *rec, u32 i)
{
	struct rec_record mine;

	r.flows[i].f.id = r.header.id;
	if (replay_flow(&r, r.header.records, rec, &r.flows[i], &mine))
		exit(3);
	window[i] = r.flows[i].f.w;
	if (rec->kind != REC_RECALL || mine.epoch_end != ENS_WAITED)
		put(&mine);
	return mine.word[REC_RESULT];
}

/* Somewhere in the lower part of its range. */
static u32 any_value(u32 column)
{
	const struct cca_param_spec *spec = cca_param_at(r.header.id, column);

	return spec->min + roll(cca_min_u32(spec->max - spec->min, 50000) + 1);
}

static void put_table(void)
{
	struct rec_record rec;
	u32 i;

	table.generation++;
	for (i = 0; i < ens_rows(&table) * table.n_columns; i++)
		values[i] = i % table.n_columns == TRACKING_COLUMN ? TRACKING_GAIN_PERMILLE :
			    any_value(table.column[i % table.n_columns]);
	for (i = 0; i < rec_table_records(&table); i++) {
		rec_init(&rec, REC_TABLE, 0, 0);
		rec_put_table(&rec, &table, i);
		put_known(&rec);
	}
}

static void put_params(void)
{
	struct rec_record rec;

	params[3] = any_value(3);
	rec_init(&rec, REC_PARAMS, 0, 0);
	rec_put_params(&rec, params, r.header.id, ++version);
	put_known(&rec);
}

static void put_client(const struct rtcp_client *c)
{
	struct rec_record rec;
	u32 part;

	for (part = 0; part < RTCP_REC_PARTS; part++) {
		rec_init(&rec, (enum rec_kind)RTCP_REC_CLIENT, 0, 0);
		rtcp_put_client(&rec, c, SHARED_CLIENT, part);
		put_known(&rec);
	}
}

static const struct cca_word gain_name = { "tracking_gain_permille", 22 };

static void make_table(void)
{
	bool rtcp = is_rtcp(r.header.id);
	u32 gain = cca_param_find(r.header.id, gain_name);

	table = (struct ens_table) {
		.epoch_ms = 300, .estimate_ms = 50, .epsilon_pct = 25, .hold_back_permille = 200,
		.n_axes = cca_axis_name(r.header.id, 1) ? 2 : 1, .n_classes = 2,
		.axis = { { 0, rtcp ? 7000 : 500000, 4, 0, ENS_LINEAR }, { 1, 20000, 3, 1, ENS_LOG } },
		.classes = { { 95, 20000 }, { 95, 60000 } }, .values = values,
		.n_columns = gain < CCA_MAX_PARAMS ? COLUMNS : TRACKING_COLUMN,
		.column = { rtcp ? 2 : 0, rtcp ? 5 : 1, rtcp ? 6 : 2, gain },
		/* R-TCP: theta, eta, gamma */
	};
}

/* --- events --------------------------------------------------------------------- */

static struct rec_record begin(u32 kind, u32 i)
{
	struct rec_record rec;

	rec_init(&rec, (enum rec_kind)kind, i + 1, now_us);
	rec.delay_class = (u8)roll(2);
	/* The core decides whether an epoch ends. Table and parameters are there if it does. */
	rec.epoch_end = ENS_KEPT;
	rec.table = table.generation;
	rec.params = version;
	return rec;
}

static void start_flow(u32 i)
{
	struct cca_start start = { now_us, 40000, 10, delivered[i], MSS };
	static const struct cca_window opening = { 10, 64, 0 };
	struct rec_record rec = begin(REC_START, i);
	struct rtcp_client fresh;

	acked_us[i] = now_us;
	r.flows[i].number = i + 1;
	rtcp_client_init(&fresh, now_us);
	if (is_rtcp(r.header.id) && i < 2)
		put_client(i ? &r.clients[0].client : &fresh);
	rec_put_start(&rec, &start, 1, roll(1u << 31), version);
	if (is_window_mode(r.header.id))
		rec_put_window(&rec, &opening);
	if (is_rtcp(r.header.id)) {
		rec.word[RTCP_REC_START_WAITING] = roll(2) * 100000;
		rec.word[RTCP_REC_NUMBER] = i < 2 ? SHARED_CLIENT : 0;
	}
	put_event(&rec, i);
	window[i] = r.header.id == CCA_ID_rtcp_cubic ? window[i] : opening;
}

/* A bucket that lets all through at first, then refuses what is beyond it, then some. */
static void limit_ack(u32 i, struct cca_ack *ack)
{
	u64 t_us = now_us - SECOND;
	u32 rate = t_us < FAST_US ? FAST_PKTS_PER_S : t_us > APART_US && i == 1 ? 0 : LIMIT_PKTS_PER_S;

	ack->acked_pkts = cca_max_u32((u32)(cca_elapsed_us(now_us, acked_us[i]) * rate / 1000000), 1);
	ack->lost_pkts = t_us < FAST_US ? 0 : !roll(6);
	if (t_us >= FAST_US && t_us < 2 * FAST_US)
		ack->lost_pkts = 3 * ack->acked_pkts;
	if (t_us > APART_US)
		ack->lost_pkts = i == 1 ? 0 : 6 + ack->acked_pkts;
	ack->rtt_us = 20000 + roll(2000);
	/* The rest of a packet counts with the next ACK. */
	acked_us[i] = rate ? acked_us[i] + ack->acked_pkts * 1000000ull / rate : now_us;
}

static struct cca_ack make_ack(u32 i)
{
	struct cca_ack ack;

	memset(&ack, 0, sizeof(ack));
	ack.now_us = now_us;
	ack.rtt_us = 40000 + roll(r.header.id == CCA_ID_roccet ? 150000 : 60000);
	ack.acked_pkts = 1 + roll(3);
	ack.lost_pkts = !roll(20);
	ack.inflight_pkts = roll(60);
	ack.cwnd_pkts = 10 + roll(50);
	ack.mss_bytes = MSS;
	ack.app_limited = !roll(30);
	if (is_rtcp(r.header.id))
		limit_ack(i, &ack);
	ack.delivered_pkts = delivered[i] += ack.acked_pkts;
	if (is_bbr(r.header.id)) {
		ack.rate_pkts = ack.acked_pkts;
		ack.rate_interval_us = 1000 + roll(20000);
	}
	if (learns_from_losses(r.header.id)) {
		ack.tx_inflight_pkts = 10 + roll(50);
		ack.lost_since_pkts = roll(3);
	}
	return ack;
}

static void take_ack(u32 kind, u32 i)
{
	struct rec_record rec = begin(kind, i);
	struct cca_ack ack = make_ack(i);

	rec_put_ack(&rec, &ack);
	if (kind == REC_WINDOW_ACK && r.header.id != CCA_ID_reno)
		rec_put_window(&rec, &window[i]);
	if (is_rtcp(r.header.id))
		rec.word[RTCP_REC_WAITING] = roll(60) ? 1000000 : 0;
	put_event(&rec, i);
}

/* Growth, a threshold or an undo, and what a kernel makes of it. */
static void call_window(u32 kind, u32 i)
{
	struct rec_record rec = begin(kind, i);
	u32 result;

	rec_put_window(&rec, &window[i]);
	rec.word[REC_ACKED] = kind == REC_GROW ? 1 + roll(3) : 0;
	result = put_event(&rec, i);
	if (kind != REC_GROW)
		window[i].cwnd_pkts = result;
	if (kind == REC_SSTHRESH)
		window[i].ssthresh_pkts = result;
}

static void take_event(u32 i)
{
	/* R-TCP: recovery for the most part, because a timeout forgets what was in flight. */
	u32 kinds = is_rtcp(r.header.id) && roll(4) ? 2 : 6;
	struct cca_event ev = { (enum cca_event_kind)roll(kinds), now_us, 5, 10, MSS };
	struct rec_record rec = begin(REC_EVENT, i);

	/* It rests: data again. */
	if (is_rtcp(r.header.id) && !flow_rtcp(&r.flows[i].f)->active)
		ev.kind = CCA_TRANSFER_STARTED;
	rec_put_event(&rec, &ev);
	rec_put_window(&rec, &window[i]);
	put_event(&rec, i);
	if (ev.kind == CCA_TIMEOUT)
		window[i].cwnd_pkts = 1;
}

/* Of BBRv3 alone. */
static void take_loss(u32 i)
{
	struct cca_loss loss = { now_us, delivered[i], 10 + roll(50), 1 + roll(3), (u8)!roll(30) };
	struct rec_record rec = begin(REC_LOSS, i);

	rec_put_loss(&rec, &loss);
	put_event(&rec, i);
}

/* Rows are recalled: for another table, or because there is none any more. */
static void recall_flows(void)
{
	u32 i;

	for (i = 0; table.generation % 2 && i < FLOWS; i++) {
		struct rec_record rec = begin(REC_RECALL, i);

		rec.table = table.generation % 4 == 1 ? table.generation : 0;
		put_event(&rec, i);
	}
}

/* The table and the parameters change; a flow that is not recorded has an ACK of the shared client. */
static void change_what_is_in_force(void)
{
	struct cca_ack ack;

	if (r.header.id == CCA_ID_reno)
		return;
	if (!roll(200)) {
		put_table();
		recall_flows();
	}
	if (!roll(200))
		put_params();
	if (!is_rtcp(r.header.id) || roll(100))
		return;
	ack = make_ack(2);
	ack.acked_pkts = 1;
	rtcp_client_on_ack(&r.clients[0].client, (const struct rtcp_params *)(const void *)params, &ack);
	put_client(&r.clients[0].client);
}

/* Most records are ACKs. Flows learn over round trips that nothing interrupts. */
static u32 any_kind(void)
{
	bool is_window = is_window_mode(r.header.id);

	if (!roll(r.header.id == CCA_ID_roccet ? 100 : 25))
		return REC_EVENT;
	if (is_window && !roll(r.header.id == CCA_ID_reno ? 4 : 40))
		return REC_SSTHRESH + roll(2);
	if (learns_from_losses(r.header.id) && !roll(10))
		return REC_LOSS;
	return !is_window ? REC_ACK : roll(5) < 2 ? REC_GROW : REC_WINDOW_ACK;
}

static void step(u32 i)
{
	u32 kind = any_kind();

	change_what_is_in_force();
	now_us += roll(r.header.id == CCA_ID_roccet || is_rtcp(r.header.id) ? 8000 : 2000);
	if (is_rtcp(r.header.id) && !flow_rtcp(&r.flows[i].f)->active)
		kind = REC_EVENT;
	if (kind == REC_EVENT)
		take_event(i);
	else if (kind == REC_ACK || kind == REC_WINDOW_ACK)
		take_ack(kind, i);
	else if (kind == REC_LOSS)
		take_loss(i);
	else
		call_window(kind, i);
}

static u32 id_of(const char *name)
{
	u32 id;

	for (id = CCA_ID_gr; cca_name_of(id) && strcmp(cca_name_of(id), name); id++)
		;
	return id;
}

int main(int argc, char **argv)
{
	static const struct rec_header header = {
		REC_MAGIC, REC_VERSION, sizeof(header), sizeof(struct rec_record), 0, 0, 0,
	};
	u32 i, events;

	if (argc != 5)
		return 2;
	replay_init(&r);
	r.header = header;
	r.header.id = id_of(argv[1]);
	dice = strtoull(argv[2], NULL, 10);
	events = (u32)strtoul(argv[3], NULL, 10);
	file = fopen(argv[4], "wb");
	if (!file)
		return 2;
	fwrite(&r.header, sizeof(r.header), 1, file);
	make_table();
	cca_params_init(params, r.header.id);
	if (r.header.id != CCA_ID_reno) {
		put_params();
		put_table();
	}
	for (i = 0; i < FLOWS; i++)
		start_flow(i);
	for (i = 0; i < events; i++)
		step(i % FLOWS);
	for (i = 0; is_rtcp(r.header.id) && i < FLOWS; i++) {
		struct rec_record rec = begin(RTCP_REC_LEAVE, i);

		put_event(&rec, i);
	}
	rewind(file);
	fwrite(&r.header, sizeof(r.header), 1, file);
	replay_close(&r);
	return fclose(file) ? 2 : 0;
}
