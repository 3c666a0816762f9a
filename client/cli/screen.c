/* SPDX-License-Identifier: Apache-2.0 */

/* One picture a second, redrawn as a whole: that takes the cursor's place, clearing, bold and dim,
 * and the alternate screen, which every terminal since the VT100's heirs understands in the same
 * words (and TERM=dumb says that it does not). So there is no ncurses here: it would bring its own
 * handling of signals, a second account of the widths of characters, and one more library into the
 * containers that the client is copied to, for what are six escape sequences.
 *
 * The terminal is opened anew, because whether writing waits belongs to the open file, which is
 * shared with the shell: a terminal that was stopped with Ctrl-S holds up no one, and what it has
 * not taken when the next picture is due is waited for by poll(2).
 *
 * Whatever ends the program gives the terminal back: its own end by screen_close(), signals by the
 * caller, which ends its loop, and faults of ours by a handler here. SIGKILL alone leaves it as it
 * is; reset(1) helps. */

#include "client/cli/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_MIN = 20, WIDTH_MAX = 2000, USUAL_WIDTH = 120, USUAL_HEIGHT = 24 };

/* The alternate screen, without cursor and without wrapping; and back. */
static const char enter_text[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave_text[] = "\033[m\033[?7h\033[?25h\033[?1049l";

/* For the handler of faults alone. */
static struct screen *open_screen;

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

/* --- what there is --------------------------------------------------------------------------- */

size_t screen_width(int fd)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	long n = columns ? strtol(columns, NULL, 10) : 0;

	if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_MIN) {
		return size.ws_col;
	}
	return n >= WIDTH_MIN && n <= WIDTH_MAX ? (size_t)n : USUAL_WIDTH;
}

bool screen_is_there(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void screen_size(const struct screen *s, size_t *ret_width, size_t *ret_height)
{
	struct winsize size;
	bool known = ioctl(s->fd, TIOCGWINSZ, &size) == 0;

	*ret_width = known && size.ws_col > 0 ? size.ws_col : screen_width(s->fd);
	*ret_height = known && size.ws_row > 0 ? size.ws_row : USUAL_HEIGHT;
}

/* --- taking it and giving it back ------------------------------------------------------------ */

/* Safe in a handler of signals. What a stopped terminal does not take is not waited for. */
static void give_back(const struct screen *s)
{
	if (write(s->fd, leave_text, sizeof(leave_text) - 1) < 0) {
		/* Nobody is left who would see it. */
	}
	tcsetattr(s->fd, TCSANOW, &s->were);
}

static void on_fault(int signo)
{
	if (open_screen && open_screen->shown) {
		give_back(open_screen);
	}
	raise(signo); /* it is the default action's turn */
}

static void catch_faults(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_RESETHAND };

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		sigaction(faults[i], &action, NULL);
	}
}

static int open_terminal(void)
{
	const char *name = ttyname(STDOUT_FILENO);
	int flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
	int fd = name ? open(name, flags) : -1;

	return fd >= 0 ? fd : open("/dev/tty", flags);
}

int screen_enter(struct screen *s)
{
	struct termios raw = s->were;
	struct buf text = { 0 };
	int r;

	/* Signals stay the terminal's business: Ctrl-C, Ctrl-\ and Ctrl-Z do what they do. */
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(s->fd, TCSANOW, &raw) < 0) {
		return -errno;
	}
	s->shown = true;
	buf_text(&text, enter_text);
	r = screen_write(s, &text);
	buf_deinit(&text);
	return r;
}

int screen_open(struct screen *s)
{
	int r;

	*s = (struct screen){ .fd = open_terminal() };
	r = s->fd < 0 || tcgetattr(s->fd, &s->were) < 0 ? -errno : 0;
	if (r == 0) {
		open_screen = s;
		catch_faults();
		r = screen_enter(s);
	}
	if (r < 0) {
		screen_close(s);
	}
	return r;
}

void screen_leave(struct screen *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };

	if (s->shown) {
		buf_clear(&s->out);
		s->written = 0;
		poll(&p, 1, 1000);
		give_back(s);
		s->shown = false;
	}
}

void screen_close(struct screen *s)
{
	if (s->fd >= 0) {
		screen_leave(s);
		close(s->fd);
	}
	open_screen = NULL;
	buf_deinit(&s->out);
	s->fd = -1;
}

/* --- writing --------------------------------------------------------------------------------- */

bool screen_is_idle(const struct screen *s)
{
	return s->written == s->out.n;
}

short screen_events(const struct screen *s)
{
	return (short)(POLLIN | (screen_is_idle(s) ? 0 : POLLOUT));
}

int screen_flush(struct screen *s)
{
	while (!screen_is_idle(s)) {
		ssize_t n = write(s->fd, s->out.data + s->written, s->out.n - s->written);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return errno == EAGAIN ? 0 : -errno;
		}
		s->written += (size_t)n;
	}
	buf_clear(&s->out);
	s->written = 0;
	return 0;
}

int screen_write(struct screen *s, const struct buf *text)
{
	buf_add(&s->out, text->data, text->n);
	return s->out.failed ? -ENOMEM : screen_flush(s);
}

/* --- keys ------------------------------------------------------------------------------------ */

int screen_read(struct screen *s)
{
	ssize_t n = read(s->fd, s->keys + s->n_keys, sizeof(s->keys) - s->n_keys);

	if (n > 0) {
		s->n_keys += (size_t)n;
		return 0;
	}
	/* With VMIN 0 nothing to read is 0, and so is a terminal that hung up; poll(2) says POLLHUP
	 * of the latter. */
	return n == 0 || errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int take_keys(struct screen *s, size_t n, int key)
{
	memmove(s->keys, s->keys + n, s->n_keys - n);
	s->n_keys -= n;
	return key;
}

/* "\033[A", "\033OA", "\033[5~", as xterm, tmux, screen and the console send them. */
static int meaning(const unsigned char *sequence, size_t n)
{
	static const struct {
		const char *sequence;
		int key;
	} known[] = {
		{ "[A", SCREEN_UP },	     { "OA", SCREEN_UP },    { "[B", SCREEN_DOWN },
		{ "OB", SCREEN_DOWN },	     { "[C", SCREEN_RIGHT }, { "OC", SCREEN_RIGHT },
		{ "[D", SCREEN_LEFT },	     { "OD", SCREEN_LEFT },  { "[5~", SCREEN_PAGE_UP },
		{ "[6~", SCREEN_PAGE_DOWN }, { "[H", SCREEN_HOME },  { "OH", SCREEN_HOME },
		{ "[1~", SCREEN_HOME },	     { "[F", SCREEN_END },   { "OF", SCREEN_END },
		{ "[4~", SCREEN_END },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strlen(known[i].sequence) == n && memcmp(known[i].sequence, sequence, n) == 0) {
			return known[i].key;
		}
	}
	return SCREEN_NONE;
}

/* Length of the sequence behind ESC; 0: it is not whole yet. */
static size_t sequence_length(const unsigned char *p, size_t n)
{
	size_t i = 1;

	if (n < 2 || (p[0] != '[' && p[0] != 'O')) {
		return n > 0 && p[0] != '[' && p[0] != 'O' ? 1 : 0;
	}
	while (i < n && (p[i] < 0x40 || p[i] > 0x7e)) {
		i++;
	}
	return i < n ? i + 1 : 0;
}

int screen_key(struct screen *s)
{
	while (s->n_keys > 0) {
		size_t n;
		int key;

		if (s->keys[0] != '\033') {
			return take_keys(s, 1, s->keys[0]);
		}
		n = sequence_length(s->keys + 1, s->n_keys - 1);
		if (n == 0 && s->n_keys < sizeof(s->keys)) {
			break;
		}
		key = n > 0 ? meaning(s->keys + 1, n) : SCREEN_NONE;
		take_keys(s, n > 0 ? n + 1 : s->n_keys, 0);
		if (key != SCREEN_NONE) {
			return key;
		}
	}
	return SCREEN_NONE;
}
