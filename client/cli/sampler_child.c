/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampler_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/say.h"

enum { PIPE_BYTES = 1 << 20, READ_BYTES = 1 << 16 };

const char sampler_died_remedy[] =
	"Try again; the kernel's log says if it ran out of memory or crashed.";

static const char name[] = "gpuctr-sampler";

static bool find_beside(char ret[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof(name));
	char *slash;

	if (n <= 0) {
		return false;
	}
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (slash) {
		memcpy(slash + 1, name, sizeof(name));
	}
	return slash && access(ret, X_OK) == 0;
}

bool sampler_find(char ret[PATH_MAX])
{
	const char *named = getenv("GPUCTR_SAMPLER");

	if (named && *named) {
		snprintf(ret, PATH_MAX, "%s", named);
		return access(ret, X_OK) == 0;
	}
	if (find_beside(ret)) {
		return true;
	}
	snprintf(ret, PATH_MAX, "%s", GPUCTR_SAMPLER_PATH);
	return access(ret, X_OK) == 0;
}

int sampler_start(struct child *c, const char *path, const char *const *argv,
		  const char *const *added, const sigset_t *mask, int *ret_life, int *ret_output)
{
	int r = child_start_piped(c, path, (char *const *)(uintptr_t)argv, added, mask, ret_life,
				  ret_output);

	if (r == 0) {
		(void)fcntl(*ret_output, F_SETFL, O_NONBLOCK);
		(void)fcntl(*ret_output, F_SETPIPE_SZ, PIPE_BYTES);
	}
	return r;
}

int sampler_take(int output, struct sampler_reader *reader)
{
	static uint8_t bytes[READ_BYTES];
	ssize_t n = 1;
	int r = 0;

	for (unsigned i = 0; i <= PIPE_BYTES / READ_BYTES && n > 0 && r == 0; i++) {
		n = read(output, bytes, sizeof(bytes));
		r = n > 0 ? sampler_reader_feed(reader, bytes, (size_t)n) : 0;
	}
	return r ? r : n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)) ? 0 : 1;
}

void sampler_ask_end(int *life)
{
	if (*life >= 0) {
		close(*life);
		*life = -1;
	}
}

void sampler_tell_silent(const char *gpu, pid_t pid)
{
	say("the sampler of GPU %s (pid %d) has not begun for %d s, and is given up: the driver or "
	    "CUPTI does not answer it, or $GPUCTR_SAMPLER is none. The kernel's log may have "
	    "errors (Xid) of that GPU; `nvidia-smi -pm 1` spares the driver the setting up",
	    gpu, (int)pid, (int)(SAMPLER_BEGIN_NS / CLOCK_NS_PER_S));
}
