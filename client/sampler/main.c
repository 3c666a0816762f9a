/* SPDX-License-Identifier: Apache-2.0 */
/* gpuctr-sampler: samples the counters of one GPU, and writes them to standard output in the format
 * of stream.h. It does not know the daemon: where the driver refuses the counters, run it as
 * `gpuctr-client permit -- gpuctr-sampler ...`.
 *
 * It ends at SIGINT, SIGQUIT, SIGTERM and SIGHUP, after --duration, or when the other end of a pipe
 * at its standard input or output is closed. It then writes the samples until then, and the end
 * with its reason. A reader that is too slow loses samples, and the stream says how many. If
 * samples or the end cannot be written (no room on the disk, a reader that has stopped), the
 * program fails. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/sampler/box.h"
#include "client/sampler/refuse.h"
#include "client/sampler/session.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/standard.h"

enum {
	FLUSH_NS = 20000000,
	LAST_WORD_MS = 2000,
	OUT_LIMIT = 32 << 20, /* ten seconds of three metrics at 10 us */
	BUFFER_MAX_MIB = 4096,
};

#define INTERVAL_MIN_NS 1000
#define INTERVAL_MAX_NS CLOCK_NS_PER_S
#define TURN_MIN_NS (10 * CLOCK_NS_PER_MS)
#define TURN_MAX_NS (60 * CLOCK_NS_PER_S)
#define DURATION_MAX_NS (CLOCK_NS_PER_S * 86400 * 365)

struct sampler {
	struct session_options options;
	struct session session;
	struct sampler_writer *writer;
	struct refusal refusal;
	uint64_t duration_ns, end_at_ns; /* 0: none */
	uint64_t flushed_ns, cpu_before_ns;
	int signals;
	int life;      /* a pipe at standard input; -1: there is none */
	int out_flags; /* flags of standard output as the program found it */
	int out_error; /* error of standard output; EPIPE: nobody reads; 0: none */
	bool quiet, ends;
};

static const struct option options[] = {
	{ "gpu", required_argument, NULL, 'g' },
	{ "metrics", required_argument, NULL, 'm' },
	{ "interval", required_argument, NULL, 'i' },
	{ "duration", required_argument, NULL, 'd' },
	{ "buffer", required_argument, NULL, 'b' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "turns", required_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char usage[] =
	"Usage: gpuctr-sampler --metrics NAME[,NAME...] [--gpu INDEX|UUID] [--interval TIME]\n"
	"                      [--duration SECONDS] [--buffer MIB] [--turns TIME] [--quiet]\n"
	"\n"
	"Samples the counters of a GPU, whoever's programs run there, and writes binary samples\n"
	"to standard output. TIME is 10us, 1ms, ...; without --interval 10us, or what metrics of\n"
	"the SMs need. MIB is the hardware's buffer. With --turns metrics of several passes are\n"
	"sampled in turns of about TIME, from 10ms on.\n"
	"`gpuctr-client capture --timeline` runs it and shows what it says.\n";

/* --- the command line --- */

/* "10us", "1ms", "2s"; without a unit seconds. */
static bool read_time(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "", 1e9 } };
	char *end;
	double number = strtod(text, &end);

	for (size_t i = 0; end != text && i < ARRAY_SIZE(units); i++) {
		double ns = number * units[i].ns;

		if (strcmp(end, units[i].unit) == 0 && ns >= (double)min_ns &&
		    ns <= (double)max_ns) {
			*ret = (uint64_t)(ns + 0.5);
			return true;
		}
	}
	return false;
}

static bool take_metrics(struct session_options *o, char *list)
{
	char *rest = NULL;

	for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		if (o->n_metrics == SAMPLER_METRICS_MAX || strlen(name) >= SAMPLER_NAME_BYTES) {
			return false;
		}
		o->metrics[o->n_metrics++] = name;
	}
	return o->n_metrics > 0;
}

static bool take_option(struct sampler *s, int id, char *value)
{
	char *end;
	unsigned long mib;

	switch (id) {
	case 'g':
		s->options.gpu = value;
		return true;
	case 'm':
		return take_metrics(&s->options, value);
	case 'i':
		return read_time(value, INTERVAL_MIN_NS, INTERVAL_MAX_NS, &s->options.interval_ns);
	case 'd':
		return read_time(value, 1, DURATION_MAX_NS, &s->duration_ns);
	case 't':
		return read_time(value, TURN_MIN_NS, TURN_MAX_NS, &s->options.turn_ns);
	case 'q':
		s->quiet = true;
		return true;
	case 'b':
		mib = strtoul(value, &end, 10);
		s->options.buffer_bytes = (uint64_t)mib << 20;
		return *end == '\0' && mib >= 1 && mib <= BUFFER_MAX_MIB;
	default:
		return false;
	}
}

/* -1: go on; else the exit status. */
static int read_options(struct sampler *s, int argc, char **argv)
{
	int id;

	s->options.gpu = "0";
	while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (id == 'h') {
			fputs(usage, stdout);
			return SAMPLER_ENDED;
		}
		if (!take_option(s, id, optarg)) {
			if (id != '?') {
				fprintf(stderr, "gpuctr-sampler: '%s' is no value of this option\n",
					optarg);
			}
			fputs(usage, stderr);
			return SAMPLER_USAGE;
		}
	}
	if (optind < argc || s->options.n_metrics == 0) {
		fputs(usage, stderr);
		return SAMPLER_USAGE;
	}
	if (isatty(STDOUT_FILENO)) {
		fputs("gpuctr-sampler: samples are binary: send standard output to a file or "
		      "pipe\n",
		      stderr);
		return SAMPLER_USAGE;
	}
	return -1;
}

/* --- output --- */

/* Writes as much as it can without waiting. */
static void write_some(struct sampler *s)
{
	struct buffer *out = &s->writer->out;

	while (buffer_length(out) > 0 && s->out_error == 0) {
		ssize_t n = write(STDOUT_FILENO, out->data + out->start, buffer_length(out));

		if (n > 0) {
			buffer_consume(out, (size_t)n);
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			s->out_error = errno == ECONNRESET ? EPIPE : errno;
			s->ends = true;
		}
	}
}

/* Waits for a slow reader, LAST_WORD_MS at most, so that it gets the end of the stream. */
static void write_rest(struct sampler *s)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
	uint64_t give_up_ns = clock_now_ns() + LAST_WORD_MS * CLOCK_NS_PER_MS;

	write_some(s);
	while (buffer_length(&s->writer->out) > 0 && s->out_error == 0 &&
	       clock_now_ns() < give_up_ns) {
		(void)poll(&p, 1, LAST_WORD_MS / 10);
		write_some(s);
	}
}

static void prepare_output(struct sampler *s)
{
	s->out_flags = fcntl(STDOUT_FILENO, F_GETFL);
	if (s->out_flags >= 0) {
		(void)fcntl(STDOUT_FILENO, F_SETFL, s->out_flags | O_NONBLOCK);
	}
}

/* --- the loop --- */

/* Called before NVIDIA's libraries make threads, so that all of these inherit the mask. */
static void prepare_signals(struct sampler *s)
{
	static const int ends[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		sigaddset(&set, ends[i]);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of a file's size then fails */
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void prepare_life(struct sampler *s)
{
	struct stat st;

	s->life = fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
			  ? STDIN_FILENO
			  : -1;
}

static void note_input(struct sampler *s)
{
	char ignored[512];
	ssize_t n = read(s->life, ignored, sizeof(ignored));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		s->ends = true;
	}
}

static int wait_ms(const struct sampler *s)
{
	uint64_t now = clock_now_ns(), at_ns = session_next_ns(&s->session);

	at_ns = s->end_at_ns != 0 && s->end_at_ns < at_ns ? s->end_at_ns : at_ns;
	if (s->session.n_sets > 1 && s->session.turn_at_ns < at_ns) {
		at_ns = s->session.turn_at_ns;
	}
	return at_ns > now ? (int)((at_ns - now) / CLOCK_NS_PER_MS) + 1 : 0;
}

static void wait_once(struct sampler *s)
{
	struct pollfd fds[3] = {
		{ .fd = s->signals, .events = POLLIN },
		{ .fd = s->life, .events = POLLIN },
		{ .fd = STDOUT_FILENO, .events = 0 }, /* for POLLERR: nobody reads */
	};

	if (poll(fds, 3, wait_ms(s)) > 0) {
		s->ends |= fds[0].revents != 0;
		if (fds[1].revents != 0) {
			note_input(s);
		}
		if ((fds[2].revents & POLLERR) != 0 && s->out_error == 0) {
			s->out_error = EPIPE;
			s->ends = true;
		}
	}
	s->ends |= s->end_at_ns != 0 && clock_now_ns() >= s->end_at_ns;
}

static void flush(struct sampler *s)
{
	uint64_t now = clock_now_ns();

	if (now - s->flushed_ns >= FLUSH_NS) {
		s->flushed_ns = now;
		sampler_writer_flush(s->writer);
	}
	write_some(s);
}

static int sample(struct sampler *s)
{
	struct refusal *r = &s->refusal, late;
	int code = session_start(&s->session, r), last;

	s->end_at_ns = s->duration_ns ? clock_now_ns() + s->duration_ns : 0;
	s->cpu_before_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (code == 0 && !s->ends) {
		wait_once(s);
		code = session_drain(&s->session, s->writer, r);
		flush(s);
	}
	last = session_stop(&s->session, s->writer, &late);
	if (code == 0 && last != 0) {
		*r = late;
		code = last;
	}
	return code;
}

static int begin(struct sampler *s)
{
	const struct session *session = &s->session;
	uint64_t intervals_ns[SAMPLER_SETS_MAX];
	struct sampler_begin begin = { .metrics = s->options.metrics,
				       .n_metrics = s->options.n_metrics,
				       .sets = session->numbers,
				       .intervals_ns = intervals_ns };
	int code = session_open(&s->session, &s->options, &s->refusal);

	for (size_t i = 0; i < session->n_sets; i++) {
		intervals_ns[i] = session->sets[i].interval_ns;
	}
	begin.n_sets = session->n_sets;
	begin.gpu = session->uuid;
	if (code == 0 && sampler_writer_begin(s->writer, &begin) < 0) {
		refusal_set(&s->refusal, SAMPLER_FAILED, "", "out of memory");
		code = SAMPLER_FAILED;
	}
	return code;
}

static void say_why(const struct sampler *s)
{
	const struct refusal *r = &s->refusal;

	if (!s->quiet) {
		fprintf(stderr, "gpuctr-sampler: %s%s%s\n", r->message, r->remedy[0] ? ". " : "",
			r->remedy);
	}
}

/* Checks that all samples were written. A reader that is gone wants no more, so EPIPE is no
 * failure. Returns 0 or the exit status. */
static int refuse_unwritten(struct sampler *s, int ended)
{
	struct refusal *r = &s->refusal;

	if (s->out_error == EPIPE) {
		return 0;
	}
	if (s->out_error != 0) {
		return refuse_output(strerror(s->out_error), r);
	}
	if (ended < 0) {
		return refuse_output(strerror(-ended), r);
	}
	return buffer_length(&s->writer->out) > 0 ? refuse_output("the reader has stopped", r) : 0;
}

/* Returns the exit status: the code, unless that is 0 and what was sampled could not be written. */
static int end(struct sampler *s, int code)
{
	const struct refusal *r = &s->refusal;
	struct sampler_end end = {
		.reason = (enum sampler_reason)code,
		.end_ns = s->session.end_ns ? (int64_t)clock_wall_ns() : 0,
		.overflows = s->session.overflows,
		.cpu_ns = s->cpu_before_ns
				  ? clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - s->cpu_before_ns
				  : 0,
		.message = r->message,
		.remedy = r->remedy,
	};
	int ended;

	if (code != 0) {
		say_why(s);
	}
	ended = sampler_writer_end(s->writer, &end);
	write_rest(s);
	if (s->out_flags >= 0) {
		(void)fcntl(STDOUT_FILENO, F_SETFL, s->out_flags);
	}
	if (code == 0) {
		code = refuse_unwritten(s, ended);
		if (code != 0) {
			say_why(s);
		}
	}
	return code;
}

int main(int argc, char **argv)
{
	static struct sampler s;
	static struct sampler_writer writer = { .limit = OUT_LIMIT };
	int code;

	standard_hold();
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* for programs that CUPTI may start */
	code = read_options(&s, argc, argv);
	if (code >= 0) {
		return code;
	}
	s.writer = &writer;
	prepare_signals(&s);
	prepare_life(&s);
	prepare_output(&s);
	code = begin(&s);
	if (code == 0) {
		box_enter();
		code = sample(&s);
	}
	session_close(&s.session);
	code = end(&s, code);
	sampler_writer_deinit(&writer);
	return code;
}
