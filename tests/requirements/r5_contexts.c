/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "proto/nvidia/rm.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R5: nobody gets another user's context, nor a GPU that is not leased. Ann and Bob each hold the
 * lease of a GPU, she for a capture and he for a permit, have an open file of the driver with a
 * client of their own on it, and try whatever they and a third user can put together: tokens,
 * clients and targets that are their own, the other's, those of processes and captures that are
 * over, and numbers of their own that somebody else has got since. Every client has subdevices of
 * both GPUs.
 *
 * Two sides keep this. The driver knows a client by the file it was made on (the fake does with
 * strict_handles). Targets it looks up by number alone: there it is the granter that refuses. */

enum { ANN, BOB, CAROL, USERS };
enum { NOBODY = 1236, CLASS_ROOT = 0x41, CLASS_DEVICE = 0x80, PARENT = 0x5c000030, TOKENS = 6 };

static const int uids[USERS] = { USER_ANN, USER_BOB, NOBODY };

struct side {
	struct recorder r;
	int device;
	uint32_t root;
};

struct scene {
	struct fixture *f;
	struct side sides[USERS];
	const char *tokens[TOKENS]; /* Ann's, Bob's, and nobody's */
	char old_token[64];
	uint32_t clients[8];
	int (*ioctl)(int fd, unsigned long request, ...); /* the fake driver's */
	uint32_t next_object;
	uint64_t random;
};

/* --- what they have --- */

static void allocate(struct scene *s, int fd, uint32_t root, uint32_t parent, uint32_t object,
		     uint32_t class)
{
	struct rm_alloc a = { root, parent, object, class, 0, 0, 0, 0, 0, 0 };

	assert_int_equal(s->ioctl(fd, RM_IOCTL_ALLOC, &a), 0);
	assert_int_equal(a.status, RM_STATUS_OK);
}

static void make_client(struct scene *s, struct side *side, uint32_t root)
{
	side->device = raw_control_device();
	side->root = root;
	allocate(s, side->device, root, 0, root, CLASS_ROOT);
	allocate(s, side->device, root, root, PARENT, CLASS_DEVICE);
	allocate(s, side->device, root, root, PARENT + 1, CLASS_DEVICE);
}

/* Ann's is a capture, Bob's a permit. */
static void open_capture(struct scene *s, struct side *side, int uid, const char *const *gpu)
{
	struct gpuctr_capture_options o =
		uid == USER_BOB ? recorder_permit_options() : recorder_options();

	o.gpus = gpu;
	o.n_gpus = 1;
	recorder_connect(&side->r, s->f, uid);
	recorder_open(&side->r, &o);
	recorder_until(&side->r, &side->r.ready);
}

/* A capture of Ann's that is over. */
static void get_old_token(struct scene *s, const char *const *gpu)
{
	struct side old;

	open_capture(s, &old, USER_ANN, gpu);
	snprintf(s->old_token, sizeof(s->old_token), "%s", recorder_token(&old.r));
	recorder_close(&old.r);
	recorder_disconnect(&old.r);
}

static void begin(struct scene *s, struct fixture *f)
{
	static const char *const gpus[] = { "0", "1" };
	struct side old;

	*s = (struct scene){ .f = f, .random = 5 };
	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	*(void **)&s->ioctl = dlsym(dlopen(TEST_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL), "ioctl");
	assert_non_null(s->ioctl);
	fixture_start_daemon(f, NULL);
	fixture_set_knob(f, "strict_handles", 1);
	get_old_token(s, &gpus[0]);
	open_capture(s, &s->sides[ANN], USER_ANN, &gpus[0]);
	open_capture(s, &s->sides[BOB], USER_BOB, &gpus[1]);
	make_client(s, &s->sides[ANN], 0xc1d00011);
	make_client(s, &s->sides[CAROL], 0xc1d00033);
	make_client(s, &old, 0xc1d00044); /* of a process that is over */
	close(old.device);
	make_client(s, &old, 0xc1d00055); /* was Ann's once, is Bob's now */
	close(old.device);
	make_client(s, &s->sides[BOB], 0xc1d00055);
}

static void end(struct scene *s)
{
	for (size_t i = 0; i < USERS; i++) {
		close(s->sides[i].device);
	}
	for (size_t i = 0; i < CAROL; i++) {
		recorder_close(&s->sides[i].r);
		recorder_disconnect(&s->sides[i].r);
	}
	expect_no_owner(s->f);
	expect_no_objects(s->f);
}

/* --- what they try --- */

struct
try {
	size_t user, token, client, target, gpu;
};

static size_t choose(struct scene *s, size_t n)
{
	s->random = s->random * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(s->random >> 33) % n;
}

static void fill_choices(struct scene *s)
{
	const char *tokens[TOKENS] = {
		recorder_token(&s->sides[ANN].r),
		recorder_token(&s->sides[BOB].r),
		s->old_token,
		"",
		"0123456789abcdef0123456789abcdef",
		"0",
	};
	const uint32_t clients[] = {
		s->sides[ANN].root,
		s->sides[BOB].root,
		s->sides[CAROL].root,
		0xc1d00044,
		0,
		1,
		0xffffffff,
		PARENT,
	};

	memcpy(s->tokens, tokens, sizeof(tokens));
	memcpy(s->clients, clients, sizeof(clients));
}

/* Own token, own client, own context, and Ann has GPU 0 and Bob GPU 1: the one thing that is right.
 */
static bool is_right(const struct try *t)
{
	return t->user != CAROL && t->token == t->user && t->client == t->user &&
	       t->target == t->user && t->gpu == t->user;
}

static bool is_granted(struct scene *s, const struct try *t)
{
	struct wire_message m = raw_permission(s->tokens[t->token], s->clients[t->client],
					       0x5d000000 + s->next_object++);

	m.permission_request.client_target = s->clients[t->target];
	m.permission_request.parent = PARENT + (uint32_t)t->gpu;
	return raw_ask_patiently(s->f, uids[t->user], &m, s->sides[t->user].device).granted;
}

/* One in eight is right, and half are right but for one thing. */
static struct try next_try(struct scene *s)
{
	struct try t = { .user = choose(s, USERS) };

	t.token = t.client = t.target = t.user;
	t.gpu = t.user % 2;
	switch (choose(s, 8)) {
	case 0:
		t.token = choose(s, ARRAY_SIZE(s->tokens));
		break;
	case 1:
		t.client = choose(s, ARRAY_SIZE(s->clients));
		break;
	case 2:
	case 3:
		t.target = choose(s, ARRAY_SIZE(s->clients));
		break;
	case 4:
		t.client = t.target = choose(s, ARRAY_SIZE(s->clients));
		break;
	case 5:
		break;
	case 6:
		t.gpu = choose(s, 2);
		break;
	default:
		t.token = choose(s, ARRAY_SIZE(s->tokens));
		t.client = choose(s, ARRAY_SIZE(s->clients));
		t.target = choose(s, ARRAY_SIZE(s->clients));
	}
	return t;
}

SYSTEM_TEST(nobody_gets_anothers_context)
{
	size_t tries = requirement_amount(100000, 1000000), right = 0, across = 0, missed = 0;
	struct scene s;

	fixture_need_root();
	fixture_limit(3000);
	begin(&s, *state);
	fill_choices(&s);
	for (size_t i = 0; i < tries; i++) {
		const struct try t = next_try(&s);
		bool granted = is_granted(&s, &t);

		right += is_right(&t);
		across += granted && !is_right(&t);
		missed += !granted && is_right(&t);
		if (granted && !is_right(&t) && across < 5) {
			print_error("granted: user %zu token %zu client %zu target %zu GPU %zu\n",
				    t.user, t.token, t.client, t.target, t.gpu);
		}
	}
	end(&s);
	requirement_figure("R5", "%zu tries by 3 users: %zu own contexts granted, %zu of others",
			   tries, right - missed, across);
	assert_int_equal(across, 0);
	assert_int_equal(missed, 0);
	assert_true(right > tries / 100);
}
