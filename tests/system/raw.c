/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw.h"

#include <dlfcn.h>
#include <endian.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/nvidia/rm.h"
#include "proto/wire/limits.h"
#include "tests/fake/state.h"

int raw_dial(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int raw_connect(struct fixture *f, int uid)
{
	bool change = uid != USER_SELF && geteuid() == 0;
	int fd;

	if (change) {
		assert_int_equal(seteuid((uid_t)uid), 0);
	}
	fd = raw_dial(f->socket);
	if (change) {
		assert_int_equal(seteuid(0), 0);
	}
	assert_true(fd >= 0);
	return fd;
}

bool raw_send_descriptors(int socket, const void *data, size_t n, int fd, size_t n_fds)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(253 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)data, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n_fds > 0) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		for (size_t i = 0; i < n_fds; i++) {
			memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &fd, sizeof(fd));
		}
	}
	sent = sendmsg(socket, &m, MSG_NOSIGNAL);
	if (sent < 0) {
		return false;
	}
	return (size_t)sent == n ||
	       raw_send_bytes(socket, (const char *)data + sent, n - (size_t)sent, -1);
}

bool raw_send_bytes(int socket, const void *data, size_t n, int fd)
{
	return n == 0 || raw_send_descriptors(socket, data, n, fd, fd >= 0 ? 1 : 0);
}

bool raw_send(int socket, const struct wire_message *m, int fd)
{
	struct buffer b = { 0 };
	struct arena scratch;
	bool sent;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode(&scratch, &b, m), 0);
	sent = raw_send_bytes(socket, b.data + b.start, buffer_length(&b), fd);
	buffer_deinit(&b);
	arena_deinit(&scratch);
	return sent;
}

bool raw_send_header(int socket, uint32_t size, uint16_t type, uint16_t zero)
{
	uint8_t data[FRAME_HEADER_BYTES];

	size = htole32(size);
	type = htole16(type);
	zero = htole16(zero);
	memcpy(data, &size, 4);
	memcpy(data + 4, &type, 2);
	memcpy(data + 6, &zero, 2);
	return raw_send_bytes(socket, data, sizeof(data), -1);
}

/* 1: as many bytes as wanted; 0: the end; fails the test when nothing comes. */
static int read_bytes(int socket, void *data, size_t n)
{
	struct pollfd p = { socket, POLLIN, 0 };

	for (size_t got = 0; got < n;) {
		ssize_t r;

		if (poll(&p, 1, PATIENCE_MS) != 1) {
			fail_msg("the daemon says nothing");
		}
		r = recv(socket, (char *)data + got, n - got, 0);
		if (r <= 0) {
			return 0;
		}
		got += (size_t)r;
	}
	return 1;
}

bool raw_next(int socket, struct arena *a, struct wire_message *ret)
{
	uint8_t header[FRAME_HEADER_BYTES], *data;
	struct frame f;
	uint32_t size;

	if (!read_bytes(socket, header, sizeof(header))) {
		return false;
	}
	memcpy(&size, header, sizeof(size));
	size = le32toh(size);
	assert_true(size <= LIMIT_FRAME_BYTES);
	arena_reset(a);
	data = malloc(sizeof(header) + size);
	memcpy(data, header, sizeof(header));
	if (!read_bytes(socket, data + sizeof(header), size)) {
		free(data);
		return false;
	}
	assert_int_equal(frame_parse(data, sizeof(header) + size, &f), 0);
	assert_int_equal(wire_decode(a, f.type, f.payload, f.size, ret), 0);
	free(data);
	return true;
}

struct wire_message raw_receive(int socket, struct arena *a)
{
	struct wire_message m;

	if (!raw_next(socket, a, &m)) {
		fail_msg("the daemon closed instead of an answer");
	}
	return m;
}

void raw_expect_closed(int socket)
{
	char data[4096];

	while (read_bytes(socket, data, 1)) {
	}
	close(socket);
}

void raw_expect_refused(int socket, int code)
{
	struct wire_message m;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	m = raw_receive(socket, &a);
	assert_int_equal(m.type, WIRE_REFUSAL);
	assert_int_equal(m.refusal.code, code);
	assert_true(m.refusal.message[0] != '\0');
	arena_deinit(&a);
	raw_expect_closed(socket);
}

int raw_client(struct fixture *f, int uid)
{
	const struct wire_message hello = { .type = WIRE_HELLO, .hello = { PROTO_VERSION, "raw" } };
	int fd = raw_connect(f, uid);
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_true(raw_send(fd, &hello, -1));
	assert_int_equal(raw_receive(fd, &a).type, WIRE_WELCOME);
	arena_deinit(&a);
	return fd;
}

size_t raw_captures(struct fixture *f, int uid, struct gpuctr_capture_info *ret)
{
	const struct wire_message q = { .type = WIRE_STATUS_REQUEST, .status_request = { 1 } };
	uint32_t wanted = uid == USER_SELF || geteuid() != 0 ? geteuid() : (uint32_t)uid;
	int fd = raw_client(f, USER_SELF);
	struct wire_message m;
	struct arena a;
	size_t n = 0;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_true(raw_send(fd, &q, -1));
	m = raw_receive(fd, &a);
	assert_int_equal(m.type, WIRE_STATUS_REPLY);
	for (size_t i = 0; i < m.status_reply.captures.n; i++) {
		if (m.status_reply.captures.v[i].uid == wanted && n++ == 0) {
			*ret = m.status_reply.captures.v[i];
		}
	}
	arena_deinit(&a);
	close(fd);
	return n;
}

static int agent(struct fixture *f, int uid, const struct wire_agent_hello *words,
		 uint32_t *ret_process)
{
	const struct wire_message hello = { .type = WIRE_AGENT_HELLO, .agent_hello = *words };
	int fd = raw_connect(f, uid);
	struct wire_message m;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_true(raw_send(fd, &hello, -1));
	m = raw_receive(fd, &a);
	assert_int_equal(m.type, WIRE_AGENT_WELCOME);
	*ret_process = m.agent_welcome.process;
	arena_deinit(&a);
	return fd;
}

int raw_agent(struct fixture *f, int uid, const char *token, uint32_t *ret_process)
{
	const struct wire_agent_hello words = { .version = PROTO_VERSION,
						.token = token,
						.program = "raw" };

	return agent(f, uid, &words, ret_process);
}

int raw_recording(struct fixture *f, int uid, const char *token, uint32_t *ret_process)
{
	const struct wire_agent_hello words = { .version = PROTO_VERSION,
						.token = token,
						.program = "raw",
						.recorded_from = "nothing",
						.chip = "GH100" };

	return agent(f, uid, &words, ret_process);
}

/* --- permission --- */

/* As a program's libcuda does it, by the fake driver, which remembers the folder of the first test
 * that uses it: hence in a process of its own. */
static void make_client(int fd)
{
	const struct rm_alloc a = { RAW_CLIENT, 0, RAW_CLIENT, 0x41, 0, 0, 0, 0, 0, 0 };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int (*fake_ioctl)(int, unsigned long, ...);
		struct rm_alloc own = a;

		*(void **)&fake_ioctl =
			dlsym(dlopen(TEST_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL), "ioctl");
		_exit(fake_ioctl && fake_ioctl(fd, RM_IOCTL_ALLOC, &own) == 0 && own.status == 0
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int raw_control_device(void)
{
	int fd = memfd_create("nvidiactl", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FAKE_CONTROL_FILE_BYTES), 0);
	make_client(fd);
	return fd;
}

struct wire_message raw_permission(const char *token, uint32_t root, uint32_t object)
{
	return (struct wire_message){
		.type = WIRE_PERMISSION_REQUEST,
		.permission_request = { token, root, 0x5c000030, object, RM_CLASS_PROFILER_DEVICE,
					root, 0x5c000004 },
	};
}

struct raw_answer raw_take_answer(int socket)
{
	struct raw_answer answer = { false, RM_STATUS_INSUFFICIENT_PERMISSIONS, -1 };
	struct wire_message reply;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	if (raw_next(socket, &a, &reply)) {
		if (reply.type == WIRE_PERMISSION_REPLY) {
			answer.status = reply.permission_reply.status;
			answer.code = (int)reply.permission_reply.code;
		} else if (reply.type == WIRE_REFUSAL) {
			answer.code = (int)reply.refusal.code;
		} else {
			fail_msg("the daemon answers with %s", wire_type_to_string(reply.type));
		}
		answer.granted = answer.code == 0 && answer.status == RM_STATUS_OK;
	}
	arena_deinit(&a);
	close(socket);
	return answer;
}

struct raw_answer raw_ask_on(int socket, const struct wire_message *m, int fd)
{
	raw_send(socket, m, fd); /* false: the daemon had refused already, and says so */
	return raw_take_answer(socket);
}

struct raw_answer raw_ask(struct fixture *f, int uid, const struct wire_message *m, int fd)
{
	return raw_ask_on(raw_connect(f, uid), m, fd);
}

struct raw_answer raw_ask_patiently(struct fixture *f, int uid, const struct wire_message *m,
				    int fd)
{
	struct raw_answer answer = raw_ask(f, uid, m, fd);
	uint64_t by = now_ms() + PATIENCE_MS;

	while (answer.code == GPUCTR_E_QUOTA && now_ms() < by) {
		sleep_ms(1);
		answer = raw_ask(f, uid, m, fd);
	}
	return answer;
}
