/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/cli/text.h"
#include "client/replay/play.h"
#include "proto/base/clean.h"

/* gpuctr-replay takes the place of a CUDA program: it plays a capture that was recorded with --raw
 * through the daemon, on any machine. */

static void print_help(void)
{
	puts("Usage: gpuctr-client [OPTION...] -- gpuctr-replay [--realtime] FILE\n"
	     "       gpuctr-replay --info FILE\n"
	     "\n"
	     "Plays a recording (a capture made with `gpuctr-client -o FILE --raw`) in place of a "
	     "CUDA\n"
	     "program. Needs no GPU; CUPTI evaluates the recorded counter data.\n"
	     "\n"
	     "      --info      say what FILE holds and on what it was recorded\n"
	     "      --realtime  in the recording's own time, not as fast as possible\n"
	     "  -V, --version\n"
	     "  -h, --help");
}

/* Prints a line. Names, commands and messages come out of a file that anybody may have written, so
 * nothing in them reaches the terminal as a control character. */
static void print_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print_line(FILE *to, const char *format, ...)
{
	CLEAN_FREE char *text = NULL;
	CLEAN_BUF struct buf b = { 0 };
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n >= 0) {
		text_terminal(&b, text);
		fprintf(to, "%s\n", buf_string(&b));
	}
}

static int fail(const struct refusal *r)
{
	print_line(stderr, "gpuctr-replay: error[%s]: %s", gpuctr_error_name(r->code), r->message);
	if (r->remedy[0]) {
		print_line(stderr, "  remedy: %s", r->remedy);
	}
	return 1;
}

static struct store_reader *open_recording(const char *path, struct refusal *r)
{
	struct store_reader *reader = NULL;
	struct store_error e;

	if (store_open(path, &e, &reader) != 0) {
		refusal_set(r, GPUCTR_E_BAD_RECORDING, e.remedy, "%s", e.message);
		return NULL;
	}
	if (store_count_rows(reader) != 0) {
		e = *store_reader_error(reader);
		refusal_set(r, GPUCTR_E_BAD_RECORDING, e.remedy, "%s", e.message);
		return store_reader_free(reader);
	}
	return reader;
}

static void print_process(const struct store_info *info, const struct store_process *p)
{
	char hardware[160];

	play_hardware(info, p, hardware, sizeof(hardware));
	print_line(stdout,
		   "process %u  %s, pid %u: %llu kernels, %llu images of raw counter data, on %s",
		   p->process.process, p->process.program, p->process.pid,
		   (unsigned long long)p->records, (unsigned long long)p->images, hardware);
}

static int print_info(struct store_reader *reader)
{
	const struct store_info *info = store_info(reader);
	time_t created = (time_t)(info->created_ns / 1000000000);
	char when[64];

	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", gmtime(&created));
	print_line(stdout, "file       %s%s", info->path,
		   info->complete ? "" : " (its capture did not end as asked)");
	print_line(stdout, "recorded   %s by gpuctr-client %s", when, info->version);
	print_line(stdout, "command    %s", info->command);
	print_line(stdout, "hardware   chip %s, driver %s", info->plan.chip, info->driver);
	for (size_t i = 0; i < info->plan.n_columns; i++) {
		const struct gpuctr_column *c = &info->plan.columns[i];

		print_line(stdout, "%s %s [%s]", i ? "          " : "metrics   ", c->name, c->unit);
	}
	for (size_t i = 0; i < info->n_processes; i++) {
		print_process(info, &info->processes[i]);
	}
	return 0;
}

static int play(struct store_reader *reader, bool realtime, struct refusal *r)
{
	const struct store_info *info = store_info(reader);
	const char *socket_path = getenv("GPUCTR_SOCKET"), *token = getenv("GPUCTR_TOKEN");
	struct vendor_host vendor;
	uint64_t measured = 0, images = 0;
	char hardware[160];

	if (!socket_path || !token) {
		refusal_set(r, GPUCTR_E_BAD_TOKEN,
			    "Run it as `gpuctr-client -- gpuctr-replay FILE`, or ask --info.",
			    "a recording is played within a capture, and there is none");
		return r->code;
	}
	for (size_t i = 0; i < info->n_processes; i++) {
		images += info->processes[i].images;
	}
	if (images == 0) {
		refusal_set(r, GPUCTR_E_BAD_RECORDING,
			    "Record it again with `gpuctr-client -o FILE --raw`.",
			    "%s holds no raw counter data", info->path);
		return r->code;
	}
	if (vendor_open_host(&vendor, r) != 0) {
		return r->code;
	}
	for (size_t i = 0; i < info->n_processes; i++) {
		if (info->processes[i].images > 0 &&
		    play_process(reader, &info->processes[i], &vendor, socket_path, token, realtime,
				 &measured, r) != 0) {
			return r->code;
		}
	}
	play_hardware(info, &info->processes[0], hardware, sizeof(hardware));
	print_line(stdout, "played %llu kernels recorded on %s", (unsigned long long)measured,
		   hardware);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "info", no_argument, NULL, 'i' },
		{ "realtime", no_argument, NULL, 'r' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	bool info = false, realtime = false;
	struct refusal r = { 0 };
	struct store_reader *reader;
	int o, code;

	while ((o = getopt_long(argc, argv, "Vh", longs, NULL)) != -1) {
		switch (o) {
		case 'i':
			info = true;
			break;
		case 'r':
			realtime = true;
			break;
		case 'V':
			puts("gpuctr-replay " GPUCTR_VERSION);
			return 0;
		case 'h':
			print_help();
			return 0;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc) {
		fputs("gpuctr-replay: name one recording; see --help\n", stderr);
		return 2;
	}
	reader = open_recording(argv[optind], &r);
	if (!reader) {
		return fail(&r);
	}
	code = info ? print_info(reader) : play(reader, realtime, &r);
	store_reader_free(reader);
	return code == 0 ? 0 : fail(&r);
}
