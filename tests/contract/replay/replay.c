// SPDX-License-Identifier: MIT
/*
 * replay FILE: replays a recording and prints what it was, as `name value`.
 * Exits 0 when every decision is the same, 1 when one differs, 2 when the
 * recording is refused.
 */
#include "replay.h"

static const char *const kind_names[] = {
	"nothing", "params", "table", "values", "start", "ack", "event", "told", "grow", "ssthresh",
	"undo", "recall", "client", "leave", "loss",
};
static const char *const event_names[] = {
	"recovery_entered", "recovery_left", "timeout", "undo_event", "transfer_started", "idle_restart",
	"ecn",
};
static const char *const turn_names[] = { "waited", "looked_up", "raised", "kept" };

static char *read_whole(const char *path, size_t *len)
{
	FILE *file = fopen(path, "rb");
	size_t size = 1 << 20, n;
	char *bytes = (char *)malloc(size);

	*len = 0;
	if (!file) {
		free(bytes);
		return NULL;
	}
	while ((n = fread(bytes + *len, 1, size - *len, file))) {
		*len += n;
		if (*len == size)
			bytes = (char *)realloc(bytes, size *= 2);
	}
	fclose(file);
	return bytes;
}

static void print_report(const struct replay *r)
{
	u32 i;

	printf("cca %s\n", cca_name_of(r->header.id));
	printf("records %u\n", r->header.records);
	printf("replayed %u\n", r->replayed);
	printf("differing %u\n", r->differing);
	if (r->differing)
		printf("first_differing %u\n", r->first_differing);
	printf("flows %u\ntables %u\nparameter_sets %u\n", r->n_flows, r->n_tables, r->n_params);
	printf("slow_start %u\nlowered %u\n", r->slow_start, r->lowered);
	printf("limited %u\nprobing %u\nshared %u\nmoved %u\n", r->limited, r->probing, r->shared,
	       r->moved);
	printf("told_lost %u\ntold_twice %u\n", r->told_lost, r->told_twice);
	for (i = REC_START; i < REC_KINDS; i++)
		printf("%s %u\n", kind_names[i], r->kinds[i]);
	for (i = 0; i <= CCA_ECN; i++)
		printf("%s %u\n", event_names[i], r->events[i]);
	for (i = ENS_LOOKED_UP; i <= ENS_KEPT; i++)
		printf("%s %u\n", turn_names[i], r->turns[i]);
}

int main(int argc, char **argv)
{
	struct replay r;
	size_t len;
	char *bytes = argc == 2 ? read_whole(argv[1], &len) : NULL;
	int status;

	if (!bytes) {
		fprintf(stderr, "replay: expected one file that can be read\n");
		return 2;
	}
	status = replay_run(&r, bytes, len) ? 2 : r.differing ? 1 : 0;
	if (status == 2)
		fprintf(stderr, "replay: %s\n", r.problem);
	else
		print_report(&r);
	replay_close(&r);
	free(bytes);
	return status;
}
