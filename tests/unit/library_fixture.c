/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/library_fixture.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/wire/limits.h"

static void *welcome(void *argument)
{
	struct fixture *f = argument;
	struct wire_message m = { .type = WIRE_WELCOME, .welcome = { f->version, "0.0.9" } };
	struct buffer out = { 0 };
	struct arena scratch;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	f->peer = accept(f->listener, NULL, NULL);
	if (wire_encode(&scratch, &out, &m) == 0) {
		send(f->peer, out.data + out.start, buffer_length(&out), MSG_NOSIGNAL);
	}
	buffer_deinit(&out);
	arena_deinit(&scratch);
	return NULL;
}

void library_welcome(struct fixture *f)
{
	assert_int_equal(pthread_create(&f->daemon, NULL, welcome, f), 0);
}

struct wire_message library_expect_request(struct fixture *f)
{
	struct wire_message m = { 0 };
	int r;

	while ((r = wire_next(&f->in, &f->arena, &m)) == FRAME_E_MORE) {
		assert_int_equal(buffer_receive(&f->in, f->peer, 4096, 0), 0);
	}
	assert_int_equal(r, 0);
	return m;
}

void library_expect_no_request(struct fixture *f)
{
	char byte;

	assert_true(recv(f->peer, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
}

int library_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	f->version = PROTO_VERSION;
	snprintf(f->folder, sizeof(f->folder), "/tmp/gpuctr-unit.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/socket", f->folder);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", f->path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(f->listener, 1), 0);
	f->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	f->page = mmap(NULL, 2 * f->page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(f->page != MAP_FAILED);
	assert_int_equal(mprotect(f->page + f->page_bytes, f->page_bytes, PROT_NONE), 0);
	arena_init(&f->arena, LIMIT_UNPACKED_BYTES);
	library_welcome(f);
	assert_int_equal(gpuctr_connect(f->path, "old", &f->g), 0);
	pthread_join(f->daemon, NULL);
	assert_int_equal(library_expect_request(f).type, WIRE_HELLO);
	*state = f;
	return 0;
}

int library_teardown(void **state)
{
	struct fixture *f = *state;

	gpuctr_disconnect(f->g);
	close(f->peer);
	close(f->listener);
	unlink(f->path);
	rmdir(f->folder);
	munmap(f->page, 2 * f->page_bytes);
	buffer_deinit(&f->in);
	arena_deinit(&f->arena);
	free(f);
	return 0;
}

void library_answer(struct fixture *f, const struct wire_message *m)
{
	struct buffer out = { 0 };
	struct arena scratch;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode(&scratch, &out, m), 0);
	assert_int_equal(send(f->peer, out.data + out.start, buffer_length(&out), MSG_NOSIGNAL),
			 buffer_length(&out));
	buffer_deinit(&out);
	arena_deinit(&scratch);
	assert_int_equal(gpuctr_dispatch(f->g, 1000), 0);
}

const char *const library_metrics[] = { "dram__bytes_read.sum" };
const char *const library_ranges[] = { "step/", "epoch" };

struct gpuctr_capture_options library_ask_everything(void)
{
	return (struct gpuctr_capture_options){
		.size = sizeof(struct gpuctr_capture_options),
		.metrics = library_metrics,
		.n_metrics = 1,
		.chip = "GH100",
		.kernel_regex = "gemm",
		.launch_skip = 3,
		.launch_count = 4,
		.no_wait = true,
		.timeout_ns = 5,
		.raw_images = true,
		.recorded = true,
		.program = "program",
		.nvtx_include = library_ranges,
		.n_nvtx_include = 2,
		.nvtx_exclude = library_ranges + 1,
		.n_nvtx_exclude = 1,
		.capture_range = "nvtx:A/",
		.stop_on_range_end = 1,
		.skip_first = 1,
		.wait = 2,
		.warmup = 3,
		.active = 4,
		.repeat = 5,
		.step = "B/",
		.kernel_name_base = GPUCTR_KERNEL_NAME_MANGLED,
		.launch_every = 2,
		.filter_mode = GPUCTR_FILTER_PER_KERNEL,
		.permit = GPUCTR_PERMIT_BY_PRELOAD,
		.trace = 1,
		.whole_graphs = 1,
		.gpus_allowed = 1,
	};
}
