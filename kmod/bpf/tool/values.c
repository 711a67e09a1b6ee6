// SPDX-License-Identifier: GPL-2.0
/* The files `parameters` and `settings`, with the text and the errors that /proc has. */
#include <errno.h>
#include <string.h>

#include "tool.h"

#include "../../linux/files.h"

static const struct cca_setting_spec specs[CCATUNE_SETTINGS] = {
	[CCATUNE_CLASS_SOURCE] = { "class_source", CCATUNE_CLASS_OF_NOTHING,
				   CCATUNE_CLASS_OF_PRIORITY, CCATUNE_CLASS_OF_MARK, "choice" },
	[CCATUNE_CLASS_MASK] = { "class_mask", 1, 0xffffffffu, 0xffffffffu, "mask" },
	[CCATUNE_DEFAULT_CLASS] = { "default_class", 0, 0, ENS_MAX_CLASSES - 1, "class" },
	[CCATUNE_MAX_FLOWS] = { "max_flows", 0, CCATUNE_MOST_FLOWS, CCATUNE_MOST_FLOWS, "flows" },
};

int values_show(struct loaded *l, FILE *out)
{
	struct seq_file m = { out };

	ccatune_show_parameters(&m, l->id, l->config->params.value);
	return 0;
}

int settings_show(struct loaded *l, FILE *out)
{
	struct seq_file m = { out };
	u32 i;

	for (i = 0; i < CCATUNE_SETTINGS; i++)
		ccatune_show_setting(&m, &specs[i], l->config->setting[i]);
	return 0;
}

/* Refuses a text that is longer than /proc accepts. */
static int check_length(u32 len)
{
	if (len <= CCATUNE_VALUES_MAX_BYTES)
		return 0;
	complain("expected at most %u bytes, got more", CCATUNE_VALUES_MAX_BYTES);
	return -EFBIG;
}

int parameters_write(struct loaded *l, const char *text, u32 len)
{
	struct ccatune_host host = host_read(l);
	bool clear = cca_is_clear(text, len);
	u32 line_no = 0;
	int err = check_length(len);

	if (!len || err)
		return err;
	if (clear)
		cca_params_init(l->config->params.value, l->id);
	else
		err = cca_parse_params(l->config->params.value, l->id, text, len, &line_no);
	if (err) {
		complain("line %u: expected `NAME VALUE` with a parameter of %s within its range, or "
			 "the one line `clear`", line_no, l->name);
		return err;
	}
	l->config->params.version = ++host.versions;
	l->config->has_params = !clear;
	l->config->changes++;
	err = host_write(l, &host);
	if (!err)
		err = recording_add_params(l);
	return err ? err : config_publish(l);
}

int settings_write(struct loaded *l, const char *text, u32 len)
{
	u32 line_no = 0;
	int err = check_length(len);

	if (!len || err)
		return err;
	err = cca_parse_settings(specs, CCATUNE_SETTINGS, l->config->setting, text, len, &line_no);
	if (err) {
		complain("line %u: expected `NAME VALUE` with a setting within its range", line_no);
		return err;
	}
	l->config->class_shift = (u32)__builtin_ctz(l->config->setting[CCATUNE_CLASS_MASK]);
	l->config->changes++;
	return config_publish(l);
}
