/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/text.h"
#include "client/replay/play.h"
#include "client/replay/samples.h"
#include "proto/base/clean.h"
#include "proto/base/standard.h"

/* gpuctr-replay takes the place of a CUDA program: it plays a capture that was recorded with --raw
 * through the daemon, on any machine. */

static void print_help(void)
{
	puts("Usage: gpuctr-client [OPTION...] -- gpuctr-replay [--realtime] FILE\n"
	     "       gpuctr-replay --info FILE\n"
	     "       gpuctr-replay --samples GPU --metrics NAME[,NAME...] FILE\n"
	     "\n"
	     "Plays a recording (a capture made with `gpuctr-client -o FILE --raw`) in place of a "
	     "CUDA\n"
	     "program. Needs no GPU; CUPTI evaluates the recorded counter data.\n"
	     "\n"
	     "      --info      say what FILE holds and on what it was recorded\n"
	     "      --realtime  in the recording's own time, not as fast as possible\n"
	     "      --samples   in place of gpuctr-sampler: write the samples of a GPU; the client "
	     "runs it\n"
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
		play_unreadable(reader, r);
		return store_reader_free(reader);
	}
	return reader;
}

static void print_process(const struct store_info *info, const struct store_process *p)
{
	char hardware[160], images[64] = "";

	play_hardware(info, p, hardware, sizeof(hardware));
	if (!info->has_samples) {
		snprintf(images, sizeof(images), ", %llu images of raw counter data",
			 (unsigned long long)p->images);
	}
	print_line(stdout, "process %u  %s, pid %u: %llu kernels%s, on %s", p->process.process,
		   p->process.program, p->process.pid, (unsigned long long)p->records, images,
		   hardware);
}

/* False: the samples cannot be read. */
static bool print_samples(struct store_reader *reader)
{
	const struct store_samples *samples;
	struct store_blocks *blocks = NULL;
	int e = store_samples(reader, &blocks);
	unsigned long long n = 0;
	uint64_t least_ns = UINT64_MAX, most_ns = 0; /* sets of metrics have different ones */

	while (e == 0 && (e = store_next_samples(blocks, &samples)) == 0 && samples) {
		n += samples->n;
		least_ns = samples->interval_ns < least_ns ? samples->interval_ns : least_ns;
		most_ns = samples->interval_ns > most_ns ? samples->interval_ns : most_ns;
	}
	store_blocks_free(blocks);
	if (e == 0 && n > 0) {
		char most[32] = "";

		if (most_ns > least_ns) {
			snprintf(most, sizeof(most), " to %g us", (double)most_ns / 1e3);
		}
		print_line(stdout, "samples    %llu of the whole GPU, each %g us%s", n,
			   (double)least_ns / 1e3, most);
	}
	return e == 0;
}

static int print_info(struct store_reader *reader, struct refusal *r)
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
	return print_samples(reader) ? 0 : play_unreadable(reader, r);
}

/* Does the recording hold something of this process to play? */
static bool is_played(const struct store_info *info, const struct store_process *p)
{
	return info->has_samples ? p->records > 0 : p->images > 0;
}

static bool has_something(const struct store_info *info, struct refusal *r)
{
	for (size_t i = 0; i < info->n_processes; i++) {
		if (is_played(info, &info->processes[i])) {
			return true;
		}
	}
	refusal_set(r, GPUCTR_E_BAD_RECORDING,
		    info->has_samples
			    ? "Record it again with `gpuctr-client --mode sample -o FILE`."
			    : "Record it again with `gpuctr-client -o FILE --raw`.",
		    "%s holds no %s", info->path,
		    info->has_samples ? "kernels" : "raw counter data");
	return false;
}

static int play(struct store_reader *reader, bool realtime, struct refusal *r)
{
	const struct store_info *info = store_info(reader);
	const char *socket_path = getenv("GPUCTR_SOCKET"), *token = getenv("GPUCTR_TOKEN");
	const struct vendor_host *needed = NULL;
	struct vendor_host vendor;
	uint64_t measured = 0;
	char hardware[160];

	if (!socket_path || !token) {
		refusal_set(r, GPUCTR_E_BAD_TOKEN,
			    "Run it as `gpuctr-client -- gpuctr-replay FILE`, or ask --info.",
			    "a recording is played within a capture, and there is none");
		return r->code;
	}
	if (!has_something(info, r)) {
		return r->code;
	}
	if (!info->has_samples) {
		if (vendor_open_host(&vendor, r) != 0) {
			return r->code;
		}
		needed = &vendor;
	}
	for (size_t i = 0; i < info->n_processes; i++) {
		if (is_played(info, &info->processes[i]) &&
		    play_process(reader, &info->processes[i], needed, socket_path, token, realtime,
				 &measured, r) != 0) {
			return r->code;
		}
	}
	play_hardware(info, &info->processes[0], hardware, sizeof(hardware));
	print_line(stdout, "played %llu kernels recorded on %s", (unsigned long long)measured,
		   hardware);
	return 0;
}

/* Returns the exit status: the code, unless that is 0 and standard output could not be written. */
static int end(int code)
{
	int r = code == 0 ? standard_flush() : 0;

	if (r < 0) {
		fprintf(stderr,
			"gpuctr-replay: standard output: %s. Let it be where there is room.\n",
			strerror(-r));
		return 1;
	}
	return code;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "info", no_argument, NULL, 'i' },
		{ "realtime", no_argument, NULL, 'r' },
		{ "samples", required_argument, NULL, 's' },
		{ "metrics", required_argument, NULL, 'm' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *gpu = NULL, *metrics = "";
	bool info = false, realtime = false;
	struct refusal r = { 0 };
	struct store_reader *reader;
	int o, code;

	standard_hold();
	while ((o = getopt_long(argc, argv, "Vh", longs, NULL)) != -1) {
		switch (o) {
		case 'i':
			info = true;
			break;
		case 'r':
			realtime = true;
			break;
		case 's':
			gpu = optarg;
			break;
		case 'm':
			metrics = optarg;
			break;
		case 'V':
			puts("gpuctr-replay " GPUCTR_VERSION);
			return end(0);
		case 'h':
			print_help();
			return end(0);
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
	if (gpu) {
		code = samples_play(reader, gpu, metrics);
		store_reader_free(reader);
		return code;
	}
	code = info ? print_info(reader, &r) : play(reader, realtime, &r);
	store_reader_free(reader);
	return code == 0 ? end(0) : fail(&r);
}
