/* SPDX-License-Identifier: Apache-2.0 */

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/config/control.h"
#include "daemon/supervisor/privilege.h"
#include "daemon/supervisor/supervisor.h"

/* The child keeps only one end of a pipe, into which it writes the name. When the child exits, the
 * pipe closes, and its content is the answer. The supervisor reaps the child with the workers. */

enum { NAMER_S = 5, ANSWER_FD = 3 };

static void run_child(uid_t uid, int answer)
{
	const struct passwd *pw;
	sigset_t none;
	size_t n;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "namer");
	alarm(NAMER_S);
	if (privilege_enter(false) < 0 || dup2(answer, ANSWER_FD) < 0) {
		_exit(1);
	}
	syscall(SYS_close_range, ANSWER_FD + 1, ~0U, 0);
	pw = getpwuid(uid);
	n = pw ? strlen(pw->pw_name) : 0;
	_exit(n > 0 && write(ANSWER_FD, pw->pw_name, n) < 0);
}

static void give_up(struct supervisor *s)
{
	if (s->namer_pid > 0) { /* 0: the child was reaped, and another process may have its pid */
		kill(s->namer_pid, SIGKILL);
	}
	if (s->namer_fd >= 0) {
		close(s->namer_fd);
		s->namer_fd = -1;
	}
}

void namer_ask(struct supervisor *s, uint32_t uid)
{
	int ends[2];

	give_up(s);
	if (s->stopping || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		return;
	}
	s->namer_pid = fork();
	if (s->namer_pid == 0) {
		run_child(uid, ends[1]);
	}
	close(ends[1]);
	if (s->namer_pid < 0) {
		s->namer_pid = 0;
		close(ends[0]);
		return;
	}
	s->namer_fd = ends[0];
	s->namer_uid = uid;
}

void namer_answer(struct supervisor *s)
{
	struct control_message m = { .op = CONTROL_NAME, .user.uid = s->namer_uid };

	if (read(s->namer_fd, m.user.name, sizeof(m.user.name) - 1) < 0) {
		m.user.name[0] = '\0';
	}
	close(s->namer_fd);
	s->namer_fd = -1;
	if (s->control >= 0) {
		control_send_message(s->control, &m, -1);
	}
}
