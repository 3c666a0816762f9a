/* SPDX-License-Identifier: Apache-2.0 */

/* "top": looks at something again and again. What it is (top_daemon.c, top_files.c, top_capture.c)
 * draws frames of any size; this file has the command line, the loop, the keys and the signals.
 *
 * On a terminal signals come through a descriptor, so that the loop ends and gives the terminal
 * back. Without one nothing has to be given back: frames are printed, and a signal or a closed pipe
 * ends us as it ends any filter. */

#include "client/cli/verb.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client/cli/say.h"
#include "client/cli/screen.h"
#include "client/cli/text.h"
#include "client/cli/top.h"

enum {
	OPTION_TREE = 256,
	OPTION_JOB,
	OPTION_PROGRAM,
	OPTION_USER,
	OPTION_KERNEL,
	OPTION_DEVICES,
	OPTION_NO_WAIT,
	OPTION_BY,
	OPTION_SORT,
	OPTION_ONCE,
	OPTION_BATCH,
	OPTION_INTERVAL,
	OPTION_WIDTH,
};

enum { WIDTH_MIN = 20, WIDTH_MAX = 2000 };
#define SECOND_NS UINT64_C(1000000000)
#define INTERVAL_MIN_NS (SECOND_NS / 10)

static const struct option_def defs[] = {
	{ 'p', "pid", "LIST", "measure these processes and show their kernels" },
	{ OPTION_TREE, "tree", "LIST", "these processes and all that come from them" },
	{ OPTION_JOB, "job", "LIST", "JOB, JOB.STEP or ARRAYJOB_TASK, as the processes say" },
	{ OPTION_PROGRAM, "program", "GLOB", "whose program's name matches" },
	{ OPTION_USER, "user", "USER", "of this user (root may)" },
	{ 'a', "all", NULL, "everything of mine that is registered" },
	{ OPTION_METRICS, "metrics", "LIST",
	  "names, globs, regex:EXPR, presets (default: memory)" },
	{ OPTION_KERNEL, "kernel", "REGEX", "only kernels whose demangled name matches" },
	{ OPTION_DEVICES, "devices", "LIST", "GPUs by index or UUID (default: those in use)" },
	{ OPTION_NO_WAIT, "no-wait", NULL, "give up at once when a GPU is taken" },
	{ OPTION_BY, "by", "KEYS", "rows: as for report (default: kernel)" },
	{ OPTION_SORT, "sort", "COLUMN",
	  "as for report; of captures number, rate, kernels, user, "
	  "program" },
	{ OPTION_INTERVAL, "interval", "SECONDS", "between two frames (default: 1)" },
	{ OPTION_ONCE, "once", NULL, "print one frame and end, as without a terminal" },
	{ OPTION_BATCH, "batch", "N", "print N frames and end" },
	{ OPTION_WIDTH, "width", "N", "columns (default: the terminal's, or 120)" },
	{ OPTION_SOCKET, "socket", "PATH", "of the daemon" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

/* --- command line ---------------------------------------------------------------------------- */

static bool take_keys(struct top_options *o, const char *value)
{
	struct buf why = { 0 };
	bool good = keys_parse(value, &o->keys, &why);

	if (!good) {
		say_usage("--by: %s", buf_string(&why));
	}
	buf_deinit(&why);
	return good;
}

static bool take_interval(struct top_options *o, const char *value)
{
	if (!options_parse_seconds(value, &o->interval_ns) || o->interval_ns < INTERVAL_MIN_NS) {
		say_usage("--interval wants seconds, 0.1 or more, not '%s'", value);
		return false;
	}
	return true;
}

static bool take_frames(struct top_options *o, const char *value)
{
	if (!options_parse_u64(value, &o->frames) || o->frames == 0) {
		say_usage("--batch wants a number of frames, not '%s'", value);
		return false;
	}
	return true;
}

static bool take_width(struct top_options *o, const char *value)
{
	uint64_t n;

	if (!options_parse_u64(value, &n) || n < WIDTH_MIN || n > WIDTH_MAX) {
		say_usage("--width wants a number from %d to %d, not '%s'", WIDTH_MIN, WIDTH_MAX,
			  value);
		return false;
	}
	o->width = (size_t)n;
	return true;
}

static bool take_selector(struct top_options *o, int id, const char *value)
{
	struct selector *s = &o->selector;

	switch (id) {
	case 'p':
		return strings_add_list(&s->pids, value);
	case OPTION_TREE:
		return strings_add_list(&s->trees, value);
	case OPTION_JOB:
		return strings_add_list(&s->jobs, value);
	case OPTION_PROGRAM:
		return strings_add_list(&s->programs, value);
	case OPTION_USER:
		s->user = value;
		return true;
	case 'a':
		s->all = true;
		return true;
	default:
		o->help = true;
		return true;
	}
}

static bool take_option(void *userdata, int id, const char *value)
{
	struct top_options *o = userdata;

	switch (id) {
	case OPTION_METRICS:
		return strings_add_list(&o->metrics, value);
	case OPTION_DEVICES:
		return strings_add_list(&o->devices, value);
	case OPTION_KERNEL:
		o->kernel = value;
		return true;
	case OPTION_NO_WAIT:
		o->no_wait = true;
		return true;
	case OPTION_BY:
		return take_keys(o, value);
	case OPTION_SORT:
		o->sort = value;
		return true;
	case OPTION_INTERVAL:
		return take_interval(o, value);
	case OPTION_ONCE:
		o->frames = 1;
		return true;
	case OPTION_BATCH:
		return take_frames(o, value);
	case OPTION_WIDTH:
		return take_width(o, value);
	case OPTION_SOCKET:
		o->socket = value;
		return true;
	default:
		return take_selector(o, id, value);
	}
}

/* NULL: told what does not go together. */
static const struct top_source *find_source(struct top_options *o)
{
	bool selects = !selector_is_empty(&o->selector);

	if (o->files.n > 0 && selects) {
		say_usage("top: look at a capture file, or at processes, not at both");
		return NULL;
	}
	if (!selects && (o->metrics.n > 0 || o->kernel || o->devices.n > 0 || o->no_wait)) {
		say_usage("top: --metrics, --kernel, --devices and --no-wait belong to a capture "
			  "of one's own: of which processes? --pid, --tree, --job, --program, "
			  "--user or --all");
		return NULL;
	}
	if (!selects && o->files.n == 0 && !top_daemon_sorts(o->sort)) {
		say_usage("--sort %s: captures are sorted by number, rate, kernels, user or "
			  "program",
			  o->sort);
		return NULL;
	}
	if (selects && o->metrics.n == 0 && !strings_add_list(&o->metrics, "memory")) {
		say_usage("out of memory");
		return NULL;
	}
	return selects ? &top_capture : o->files.n > 0 ? &top_files : &top_daemon;
}

/* --- frames ---------------------------------------------------------------------------------- */

struct top {
	const struct top_options *o;
	const struct top_source *source;
	void *state;
	struct screen screen;
	int signals; /* descriptor */
	struct top_look look;
	struct frame frame;
	size_t scroll;
	bool helps, dirty, quits, broken;
	int status;
};

static const char keys_help[] = "q    end\n"
				"s    the next order of rows\n"
				"S    the order before\n"
				"\n"
				"up, down, page up, page down, home, end\n"
				"     other rows\n"
				"left, right\n"
				"     other columns, where there are more than fit\n"
				"?    this, and back\n";

/* Fills the frame. false: told why it cannot be. */
static bool draw(struct top *t)
{
	struct buf why = { 0 };
	int r;

	frame_clear(&t->frame);
	r = t->source->draw(t->state, &t->look, &t->frame, &why);
	if (r) {
		say_usage("top: %s", buf_string(&why));
		t->status = EXIT_VERB_USAGE;
	} else if (t->frame.failed || t->frame.text.failed) {
		say_usage("out of memory");
		t->status = EXIT_VERB_FAILED;
	}
	buf_deinit(&why);
	return t->status == 0;
}

static int print_frame(struct top *t, bool more)
{
	struct buf b = { 0 };
	bool good;

	t->look = (struct top_look){ .width = t->o->width ? t->o->width
							  : screen_width(STDOUT_FILENO) };
	if (!draw(t)) {
		return t->status;
	}
	frame_print(&t->frame, t->look.width, &b);
	if (more) {
		buf_char(&b, '\n');
	}
	good = fwrite(b.data, 1, b.n, stdout) == b.n && fflush(stdout) == 0;
	buf_deinit(&b);
	if (!good) {
		if (errno != EPIPE) {
			say_usage("standard output: %s", strerror(errno));
		}
		t->status = errno == EPIPE ? 0 : EXIT_VERB_FAILED;
		t->quits = true;
	}
	return t->status;
}

/* Until a time: serves the connection. */
static void wait_for(struct top *t, uint64_t until_ns)
{
	uint64_t now = top_now_ns();

	for (; now < until_ns && t->source->is_over(t->state) == 0; now = top_now_ns()) {
		struct gpuctr *g = t->broken ? NULL : t->source->connection(t->state);
		int left_ms = (int)((until_ns - now + 999999) / 1000000);

		if (!g) {
			poll(NULL, 0, left_ms);
		} else {
			t->broken = gpuctr_dispatch(g, left_ms) != 0;
		}
	}
}

/* What follows from two looks, as a rate does, is there from the second frame on; a capture has
 * nothing to show before its first interval is over. */
static int print_frames(struct top *t)
{
	uint64_t next_ns = top_now_ns();

	for (uint64_t i = 0; i < t->o->frames && t->status == 0 && !t->quits; i++) {
		if (i > 0 || t->source == &top_capture) {
			next_ns += t->o->interval_ns;
			wait_for(t, next_ns);
			t->broken = false;
			t->source->look(t->state);
			/* The answer to what was asked. */
			for (int k = 0; k < 10 && !t->source->is_fresh(t->state); k++) {
				wait_for(t, top_now_ns() + t->o->interval_ns / 10);
			}
		}
		t->status = t->source->is_over(t->state);
		if (t->status == 0) {
			print_frame(t, i + 1 < t->o->frames);
		}
	}
	return t->status;
}

/* --- on a terminal --------------------------------------------------------------------------- */

static void show(struct top *t)
{
	const char *no_color = getenv("NO_COLOR");
	size_t most;
	struct buf b = { 0 };

	screen_size(&t->screen, &t->look.width, &t->look.height);
	t->look.scroll = t->scroll;
	if (!draw(t)) {
		t->quits = true;
		return;
	}
	if (t->helps) {
		frame_clear(&t->frame);
		frame_add(&t->frame, keys_help, LOOK_PLAIN);
	}
	most = frame_scroll_max(&t->frame, t->look.height);
	t->scroll = t->scroll < most ? t->scroll : most;
	frame_draw(&t->frame, "q end   s order   arrows move   ? help", t->look.width,
		   t->look.height, t->scroll, no_color && *no_color, &b);
	if (screen_write(&t->screen, &b) < 0) {
		t->quits = true;
	}
	buf_deinit(&b);
	t->dirty = false;
}

static void move(struct top *t, long rows)
{
	t->scroll = rows < 0 && t->scroll < (size_t)-rows ? 0 : t->scroll + (size_t)rows;
}

static void handle_key(struct top *t, int key)
{
	long page = (long)t->look.height > 4 ? (long)t->look.height - 4 : 1;

	t->dirty = true;
	switch (key) {
	case 'q':
	case 'Q':
		t->quits = true;
		break;
	case 's':
		t->look.sort++;
		break;
	case 'S':
		t->look.sort--;
		break;
	case '?':
	case 'h':
		t->helps = !t->helps;
		break;
	case SCREEN_UP:
		move(t, -1);
		break;
	case SCREEN_DOWN:
		move(t, 1);
		break;
	case SCREEN_PAGE_UP:
		move(t, -page);
		break;
	case SCREEN_PAGE_DOWN:
		move(t, page);
		break;
	case SCREEN_HOME:
		t->scroll = 0;
		break;
	case SCREEN_END:
		t->scroll = 100000; /* show() knows how far it goes */
		break;
	case SCREEN_LEFT:
		t->look.page--;
		break;
	case SCREEN_RIGHT:
		t->look.page++;
		break;
	default:
		t->dirty = false;
		break;
	}
}

/* The shell gets its terminal, and we are stopped as it expects. */
static void suspend(struct top *t)
{
	screen_leave(&t->screen);
	say_hold(false);
	raise(SIGSTOP);
	say_hold(true);
	if (screen_enter(&t->screen) < 0) {
		t->quits = true;
	}
	t->dirty = true;
}

static void handle_signal(struct top *t, int signo)
{
	switch (signo) {
	case SIGWINCH:
		t->dirty = true;
		break;
	case SIGTSTP:
		suspend(t);
		break;
	case SIGINT: /* Ctrl-C is a way to end it */
		t->quits = true;
		break;
	default:
		t->quits = true;
		t->status = 128 + signo;
		break;
	}
}

static void read_signals(struct top *t)
{
	struct signalfd_siginfo info;

	while (read(t->signals, &info, sizeof(info)) == sizeof(info)) {
		handle_signal(t, (int)info.ssi_signo);
	}
}

static void read_terminal(struct top *t, short events)
{
	int key;

	if (screen_flush(&t->screen) < 0 || screen_read(&t->screen) < 0 ||
	    (events & (POLLHUP | POLLERR)) != 0) {
		t->quits = true;
		return;
	}
	while (!t->quits && (key = screen_key(&t->screen)) != SCREEN_NONE) {
		handle_key(t, key);
	}
}

/* One round: until something happens, or it is time to look again. */
static void wait_terminal(struct top *t, uint64_t until_ns)
{
	struct gpuctr *g = t->broken ? NULL : t->source->connection(t->state);
	struct pollfd p[] = {
		{ .fd = t->signals, .events = POLLIN },
		{ .fd = t->screen.fd, .events = screen_events(&t->screen) },
		{ .fd = g ? gpuctr_fd(g) : -1, .events = g ? gpuctr_events(g) : 0 },
	};
	uint64_t now = top_now_ns();

	if (poll(p, 3, now < until_ns ? (int)((until_ns - now + 999999) / 1000000) : 0) <= 0) {
		return;
	}
	if (p[0].revents) {
		read_signals(t);
	}
	if (p[1].revents && !t->quits) {
		read_terminal(t, p[1].revents);
	}
	if (p[2].revents) {
		t->broken = gpuctr_dispatch(g, 0) != 0;
	}
}

static void watch(struct top *t)
{
	uint64_t next_ns = top_now_ns() + t->o->interval_ns;

	t->dirty = true;
	while (!t->quits) {
		if (screen_is_idle(&t->screen) && (t->dirty || t->source->is_fresh(t->state))) {
			show(t);
		}
		if (!t->quits) {
			wait_terminal(t, next_ns);
		}
		if (top_now_ns() >= next_ns) {
			t->broken = false;
			t->source->look(t->state);
			next_ns = top_now_ns() + t->o->interval_ns;
		}
		if (!t->quits && t->source->is_over(t->state)) {
			t->status = t->source->is_over(t->state);
			t->quits = true;
		}
	}
}

static int open_signals(sigset_t *ret_inherited)
{
	static const int signos[] = { SIGINT,  SIGTERM, SIGHUP,	 SIGQUIT,  SIGTSTP,
				      SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGPIPE };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signos) / sizeof(signos[0]); i++) {
		sigaddset(&set, signos[i]);
	}
	sigprocmask(SIG_BLOCK, &set, ret_inherited);
	sigdelset(&set, SIGPIPE);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* false: the terminal cannot be opened. */
static bool show_frames(struct top *t)
{
	sigset_t inherited;
	bool shown;

	t->signals = open_signals(&inherited);
	shown = t->signals >= 0 && screen_open(&t->screen) == 0;
	if (shown) {
		say_hold(true);
		watch(t);
		screen_close(&t->screen);
		say_hold(false);
	}
	if (t->signals >= 0) {
		close(t->signals);
	}
	sigprocmask(SIG_SETMASK, &inherited, NULL);
	return shown;
}

static int run_top(struct top_options *o)
{
	struct top t = { .o = o, .source = find_source(o), .screen = { .fd = -1 } };

	if (!t.source) {
		return EXIT_VERB_USAGE;
	}
	t.state = t.source->open(o);
	if (!t.state) {
		return EXIT_VERB_FAILED;
	}
	if (o->frames > 0 || !screen_is_there() || !show_frames(&t)) {
		o->frames = o->frames ? o->frames : 1;
		print_frames(&t);
	}
	t.source->close(t.state);
	frame_deinit(&t.frame);
	return t.status;
}

static int exec_top(int argc, char **argv)
{
	struct top_options o = { .keys = { .keys = { KEY_KERNEL }, .n = 1, .nested = -1 },
				 .interval_ns = SECOND_NS };
	int rest, status = EXIT_VERB_USAGE;
	enum options_result result = options_parse(defs, argc, argv, take_option, &o, &rest);

	for (; result == OPTIONS_END && rest < argc; rest++) {
		strings_add(&o.files, argv[rest], strlen(argv[rest]));
	}
	if (o.help) {
		verb_print_help(&verb_top);
		status = 0;
	} else if (result == OPTIONS_END) {
		status = run_top(&o);
	}
	strings_deinit(&o.metrics);
	strings_deinit(&o.devices);
	strings_deinit(&o.files);
	selector_deinit(&o.selector);
	return status;
}

const struct verb verb_top = {
	.name = "top",
	.usage = "top [CAPTURE...] [--pid LIST|--job LIST|--program GLOB|--all] [OPTION...]",
	.summary = "watch captures, or the hottest kernels of one",
	.details = "Alone: the daemon's GPUs, captures and programs in standby. With a capture "
		   "file that is being\n"
		   "written (run -o, capture -o): its kernels. With processes in standby: they are "
		   "measured as long\n"
		   "as they are looked at. On a terminal the keys are q, s (order), arrows and ?; "
		   "elsewhere one\n"
		   "frame is printed.\n",
	.examples = "  gpuctr-client top\n"
		    "  gpuctr-client top run.gpuctr\n"
		    "  gpuctr-client top --program python --once\n"
		    "  gpuctr-client top --batch 3 --interval 0.5\n",
	.options = defs,
	.exec = exec_top,
};
