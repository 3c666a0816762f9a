/* SPDX-License-Identifier: Apache-2.0 */

/* Decisions about users who choose their own names: of programs, of metrics, of jobs, and on some
 * machines of themselves. Whatever these hold, a decision is one entry of the journal with its
 * fields and no other; or one line of valid JSON in the file with each key once, and one line of a
 * log that nobody's terminal obeys. */

#include <ctype.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <syslog.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "daemon/audit/audit.h"
#include "proto/base/clean.h"
#include "daemon/base/log.h"
#include "proto/base/utf8.h"
#include "tests/fuzz/fuzz.h"

enum { LISTS_MAX = 8, LINE_MAX = 1 << 18 };

static const char *const keys[] = { "time",
				    "event",
				    "uid",
				    "user",
				    "pid",
				    "program",
				    "owner",
				    "capture",
				    "gpus",
				    "metrics",
				    "job",
				    "status",
				    "driver_status",
				    "why",
				    "refused_before",
				    "others_refused_before" };
/* The keys but the time are the journal's fields, behind these. */
static const char *const fields[] = { "MESSAGE", "MESSAGE_ID", "PRIORITY", "SYSLOG_IDENTIFIER" };

static unsigned entries; /* of the journal, so far */

static void check_text(const char *s, size_t length)
{
	for (size_t i = 0; i < length;) {
		const unsigned char *u = (const unsigned char *)s + i;
		size_t n = utf8_sequence(s + i);

		fuzz_check(n > 0 && u[0] >= 0x20 && u[0] != 0x7f);
		fuzz_check(!(u[0] == 0xc2 && u[1] < 0xa0)); /* C1 */
		i += n;
	}
}

static void check_field(const char *s, size_t bytes, size_t i)
{
	bool is_key = i >= ARRAY_SIZE(fields);
	const char *name = is_key ? keys[1 + i - ARRAY_SIZE(fields)] : fields[i];
	size_t begin = is_key ? strlen("GPUCTR_") : 0, n = strlen(name);

	fuzz_check(bytes > begin + n && s[begin + n] == '=');
	fuzz_check(memcmp(s, "GPUCTR_", begin) == 0);
	for (size_t k = 0; k < n; k++) {
		fuzz_check(s[begin + k] == toupper((unsigned char)name[k]));
	}
}

/* In the place of libsystemd's. An entry that is full lacks its last fields. */
__attribute__((visibility("default"))) int
sd_journal_sendv_with_location(const char *file, const char *line, const char *func,
			       const struct iovec *v, int n)
{
	(void)file;
	(void)line;
	(void)func;
	fuzz_check(n > 4 && n < (int)(ARRAY_SIZE(fields) + ARRAY_SIZE(keys)));
	for (int i = 0; i < n; i++) {
		check_field(v[i].iov_base, v[i].iov_len, (size_t)i);
	}
	check_text(v[0].iov_base, v[0].iov_len); /* the message */
	entries++;
	return 0;
}

/* --- a reader of JSON that knows no mercy --- */

static const char *skip_string(const char *s)
{
	fuzz_check(*s == '"');
	for (s++; *s != '"';) {
		size_t n = utf8_sequence(s);
		const unsigned char *u = (const unsigned char *)s;

		fuzz_check(n > 0 && u[0] >= 0x20 && u[0] != 0x7f);
		fuzz_check(!(u[0] == 0xc2 && u[1] < 0xa0)); /* C1 */
		if (*s != '\\') {
			s += n;
			continue;
		}
		fuzz_check(strchr("\"\\nrtu", s[1]) && s[1]);
		for (int i = 0; s[1] == 'u' && i < 4; i++) {
			fuzz_check(isxdigit((unsigned char)s[2 + i]));
		}
		s += s[1] == 'u' ? 6 : 2;
	}
	return s + 1;
}

static const char *skip_value(const char *s)
{
	if (*s == '"') {
		return skip_string(s);
	}
	if (*s == '[') {
		do {
			s = skip_string(s + 1);
		} while (*s == ',');
		fuzz_check(*s == ']');
		return s + 1;
	}
	fuzz_check(isdigit((unsigned char)*s));
	while (isdigit((unsigned char)*s)) {
		s++;
	}
	return s;
}

/* The place of a key in the table, after the last one: each once, in order. */
static size_t find_key(const char *s, size_t n, size_t from)
{
	while (from < ARRAY_SIZE(keys) &&
	       !(strlen(keys[from]) == n && memcmp(keys[from], s, n) == 0)) {
		from++;
	}
	fuzz_check(from < ARRAY_SIZE(keys));
	return from;
}

static void check_line(const char *s)
{
	size_t next = 0;

	do {
		const char *key = ++s; /* after { or , */

		s = skip_string(s);
		next = find_key(key + 1, (size_t)(s - key) - 2, next) + 1;
		fuzz_check(*s == ':');
		s = skip_value(s + 1);
	} while (*s == ',');
	fuzz_check(strcmp(s, "}\n") == 0);
}

static void check_log(const char *s)
{
	size_t length = strlen(s);

	fuzz_check(length > 0 && s[length - 1] == '\n');
	check_text(s, length - 1);
}

/* --- the target --- */

static const char *contents(int fd)
{
	static char text[LINE_MAX];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	fuzz_check(n >= 0);
	text[n] = '\0';
	fuzz_check(strlen(text) == (size_t)n);
	return text;
}

static size_t take_list(struct fuzz_input *in, char *list[LISTS_MAX])
{
	size_t n = fuzz_take_u8(in) % (LISTS_MAX + 1);

	for (size_t i = 0; i < n; i++) {
		list[i] = fuzz_take_text(in, 512);
	}
	return n;
}

/* What is logged as text goes to standard error. */
static void write_to(struct audit *a, const struct audit_line *l, int log)
{
	int before = dup(STDERR_FILENO);

	dup2(log, STDERR_FILENO);
	fuzz_check(audit_write(a, l) == 0);
	dup2(before, STDERR_FILENO);
	close(before);
}

/* tests/fuzz/run ends a fuzzer by SIGUSR1, and libFuzzer says so on standard error, which may be
 * the log just then. So it comes between two inputs, to this thread: those that are started later
 * have it blocked. */
static void let_end(bool may)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(may ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	let_end(false);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	char *gpus[LISTS_MAX], *metrics[LISTS_MAX], *texts[4];
	int file = memfd_create("audit", MFD_CLOEXEC), log = memfd_create("log", MFD_CLOEXEC);
	struct audit a = { .fd = -1, .journal = fuzz_take_u8(&in) & 1 };
	unsigned before = entries;
	struct audit_line l = {
		.event = (enum audit_event)(fuzz_take_u8(&in) % (AUDIT_JOB_ENDED + 1)),
		.code = fuzz_take_u8(&in),
		.uid = (uid_t)fuzz_take_number(&in),
		.pid = (pid_t)(fuzz_take_number(&in) & INT32_MAX),
		.capture = (uint32_t)fuzz_take_number(&in),
		.driver_status = (uint32_t)fuzz_take_number(&in),
		.missed = fuzz_take_number(&in),
	};

	let_end(true);
	let_end(false);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		texts[i] = fuzz_take_text(&in, 2048);
	}
	l.missed_others = l.missed / 3;
	l.user = texts[0];
	l.program = texts[1];
	l.job = texts[2][0] ? texts[2] : NULL;
	l.why = texts[3][0] ? texts[3] : NULL;
	l.gpus = (const char *const *)gpus;
	l.n_gpus = take_list(&in, gpus);
	l.metrics = (const char *const *)metrics;
	l.n_metrics = take_list(&in, metrics);
	log_init("front", LOG_DEBUG);
	audit_set_file(&a, true, file);
	write_to(&a, &l, log);
	fuzz_check(entries == before + a.journal);
	if (a.journal) {
		fuzz_check(contents(file)[0] == '\0');
	} else {
		check_line(contents(file));
		check_log(contents(log));
	}
	audit_deinit(&a);
	close(log);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		free(texts[i]);
	}
	for (size_t i = 0; i < l.n_gpus; i++) {
		free(gpus[i]);
	}
	for (size_t i = 0; i < l.n_metrics; i++) {
		free(metrics[i]);
	}
	return 0;
}
