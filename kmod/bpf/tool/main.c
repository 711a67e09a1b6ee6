// SPDX-License-Identifier: GPL-2.0
/* The command line of ccatune-bpf. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

#define MOST_ERRNO 133
#define MOST_TEXT_BYTES (ENS_MAX_TEXT_BYTES + 1)	/* one more than any file takes */

static const char usage[] =
	"Usage: ccatune-bpf [--pins DIR] COMMAND\n"
	"\n"
	"  load ALGORITHM              register it as a congestion control of TCP, in BPF\n"
	"  unload ALGORITHM            take it back; its table and counts are gone\n"
	"  list                        the loaded algorithms, one a line\n"
	"  read ALGORITHM FILE         print a file, as `cat /proc/net/ccatune/ALGORITHM/FILE` does\n"
	"  write ALGORITHM FILE        write it from standard input\n"
	"  acks HASH RATE RING PORT... samples of ACKs, in binary: `ccatune observe --acks` runs this\n"
	"\n"
	"ALGORITHM is one of %s.\n"
	"bbr, bbr3, cubic and vegas are registered as ccatune_bbr etc.: they are not the kernel's.\n"
	"FILE is parameters, settings, ensemble, status, flows or recording (docs/proc.md, docs/bpf.md).\n"
	"\n"
	"Maps are pinned below DIR [" DEFAULT_PINS ", or CCATUNE_BPF_PINS], so that a table outlives\n"
	"this program. Takes CAP_BPF and CAP_NET_ADMIN, `load` CAP_PERFMON too. The exit status of a\n"
	"failure is the errno that /proc would give: 22 EINVAL, 34 ERANGE, 27 EFBIG, 17 EEXIST,\n"
	"116 ESTALE; 2: not loaded.\n"
	"\n"
	"Example:\n"
	"  ccatune-bpf load gr && ccatune-bpf write gr ensemble < table.txt\n";

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("ccatune-bpf: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

struct file {
	const char *name;
	int (*show)(struct loaded *l, FILE *out);
	int (*write)(struct loaded *l, const char *text, u32 len);
};

static const struct file files[] = {
	{ "parameters", values_show, parameters_write },
	{ "settings", settings_show, settings_write },
	{ "ensemble", ensemble_show, ensemble_write },
	{ "status", status_show, NULL },
	{ "flows", flows_show, NULL },
	{ "recording", recording_show, recording_write },
};

static const struct file *find_file(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(files[i].name, name))
			return &files[i];
	complain("expected a file among parameters, settings, ensemble, status, flows and recording, "
		 "got %s", name);
	return NULL;
}

static int read_file(const char *pins, const char *name, const struct file *file)
{
	char *text = NULL;
	size_t len = 0;
	struct loaded l;
	FILE *out;
	int err = open_loaded(&l, pins, name);

	if (err)
		return err;
	/* Releases the lock before it prints, so that a slow reader does not delay a writer. */
	out = open_memstream(&text, &len);
	err = out ? file->show(&l, out) : -ENOMEM;
	close_loaded(&l);
	if (out && fclose(out) && !err)
		err = -ENOMEM;
	if (!err && (fwrite(text, 1, len, stdout) < len || fflush(stdout)))
		err = -EIO;
	free(text);
	return err;
}

static int write_text(struct loaded *l, const struct file *file, const char *text, u32 len)
{
	int err = file->write(l, text, len);
	struct ccatune_host host;

	if (!err)
		return 0;
	/* Commands to the recording are not counted, as in /proc. */
	if (file->write != recording_write) {
		host = host_read(l);
		host.rejected_writes++;
		host_write(l, &host);
	}
	complain("%s/%s: %s", l->name, file->name, strerror(-err));
	return err;
}

static int write_file(const char *pins, const char *name, const struct file *file)
{
	char *text = malloc(MOST_TEXT_BYTES);
	struct loaded l;
	size_t len;
	int err;

	if (!file->write) {
		complain("%s is only read", file->name);
		return -EACCES;
	}
	if (!text)
		return -ENOMEM;
	len = fread(text, 1, MOST_TEXT_BYTES, stdin);
	err = ferror(stdin) ? -EIO : open_loaded(&l, pins, name);
	if (!err) {
		err = write_text(&l, file, text, (u32)len);
		close_loaded(&l);
	}
	free(text);
	return err;
}

static int run(const char *pins, int argc, char **argv)
{
	const struct file *file;
	int err;

	if (argc >= 4 && !strcmp(argv[0], "acks"))
		return acks(argc - 1, argv + 1);
	if (argc == 1 && !strcmp(argv[0], "list"))
		return list(pins);
	if (argc == 2 && !strcmp(argv[0], "load"))
		return load(pins, argv[1]);
	if (argc == 2 && !strcmp(argv[0], "unload"))
		return unload(pins, argv[1]);
	if (argc == 3 && (!strcmp(argv[0], "read") || !strcmp(argv[0], "write"))) {
		file = find_file(argv[2]);
		if (!file)
			return -EINVAL;
		err = *argv[0] == 'r' ? read_file(pins, argv[1], file) :
					write_file(pins, argv[1], file);
		return err;
	}
	fprintf(stderr, usage, algorithm_names());
	return -EINVAL;
}

int main(int argc, char **argv)
{
	const char *pins = getenv("CCATUNE_BPF_PINS");
	int err;

	argc--;
	argv++;
	if (argc >= 2 && !strcmp(argv[0], "--pins")) {
		pins = argv[1];
		argc -= 2;
		argv += 2;
	}
	if (argc == 1 && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))) {
		printf(usage, algorithm_names());
		return 0;
	}
	if (argc == 1 && !strcmp(argv[0], "--version")) {
		puts("ccatune-bpf " CCATUNE_VERSION);
		return 0;
	}
	err = -run(pins && *pins ? pins : DEFAULT_PINS, argc, argv);
	/* libbpf's own error numbers are beyond those of the kernel's ABI. */
	return err < 0 || err > MOST_ERRNO ? EIO : err;
}
