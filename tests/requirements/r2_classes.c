/* SPDX-License-Identifier: Apache-2.0 */

/* R2: only allocations of class 0xB2CC, of the one size, reach the driver. Every other class, size
 * of a packet and of its fields ends before, and so does a number that the driver would make up, of
 * an object that nobody could free. Rights, flags and the ioctl's number have no place in
 * what a user or the front can say: r3_integers.c looks at what the driver sees of them. */

#include "proto/nvidia/rm.h"
#include "tests/fuzz/granter_box.h"
#include "tests/requirements/requirement.h"
#include "tests/unit/unit.h"

enum { CLASSES = 65536, SIZES = 129, LEASE = 7, UID = 1000, PID = 1 };

static struct granter_request alloc_of(uint32_t class)
{
	return (struct granter_request){
		.size = sizeof(struct granter_request),
		.op = GRANTER_ALLOC,
		.lease = LEASE,
		.uid = UID,
		.pid = PID,
		.root = 0xc1d00001,
		.parent = 0x5c000002,
		.object = 0x5c000003,
		.object_class = class,
		.client_target = 0xc1d00001,
		.context_target = 0x5c000004,
	};
}

static void open_lease(struct box_step *step)
{
	const struct granter_request q = {
		.size = sizeof(q),
		.op = GRANTER_OPEN,
		.lease = LEASE,
		.gpus = 1,
		.uid = UID,
	};

	box_packet(step, &q, BOX_NO_FILE);
}

/* --- classes --- */

static const uint32_t high_words[] = { 0, 0x10000, 0x80000000, 0xffff0000, 0xb2cc0000 };

/* Step 0 opens the lease, and step n asks for class n - 1, with each high word. */
static void next_class(struct box_step *step, void *userdata)
{
	size_t *n = userdata, i = (*n)++;
	struct granter_request q;

	if (i == 0) {
		open_lease(step);
	} else if (i <= CLASSES * ARRAY_SIZE(high_words)) {
		q = alloc_of((uint32_t)((i - 1) % CLASSES) | high_words[(i - 1) / CLASSES]);
		box_packet(step, &q, BOX_CONTROL_DEVICE);
	} else {
		step->kind = BOX_END;
	}
}

TEST(all_classes_through_the_granter)
{
	struct box_figures f;
	size_t n = 0;

	f = box_run(next_class, &n);
	assert_int_equal(f.packets, 1 + CLASSES * ARRAY_SIZE(high_words));
	assert_int_equal(f.replies, f.packets);
	assert_int_equal(f.allocs, 1);
	assert_int_equal(f.frees, 1); /* with the end */
	requirement_figure("R2", "%zu classes asked of the granter: %zu reached the driver",
			   (size_t)f.packets - 1, (size_t)f.allocs);
}

/* --- numbers --- */

enum { NUMBERS = 3 }; /* of root, parent and object */

/* --- sizes --- */

struct sizes {
	size_t bytes;  /* of the packet */
	uint32_t says; /* its field */
	unsigned n;
};

static void next_size(struct box_step *step, void *userdata)
{
	struct granter_request q = alloc_of(RM_CLASS_PROFILER_DEVICE);
	struct sizes *s = userdata;

	switch (s->n++) {
	case 0:
		open_lease(step);
		break;
	case 1:
		q.size = s->says;
		box_packet(step, &q, BOX_CONTROL_DEVICE);
		step->n_bytes = s->bytes;
		break;
	default:
		step->kind = BOX_END;
		break;
	}
}

/* Of every pair of sizes from the first one on; returns how many reached the driver. */
static size_t try_sizes(size_t first)
{
	size_t allocs = 0;

	for (size_t bytes = first; bytes < first + SIZES; bytes++) {
		for (size_t says = first; says < first + SIZES; says++) {
			struct sizes s = { bytes, (uint32_t)says, 0 };
			struct box_figures f = box_run(next_size, &s);
			bool right = bytes == sizeof(struct granter_request) && says == bytes;

			assert_int_equal(f.allocs, right ? 1 : 0);
			allocs += f.allocs;
		}
	}
	return allocs;
}

TEST(all_sizes_through_the_granter)
{
	size_t right = sizeof(struct granter_request), allocs;

	allocs = try_sizes(0) + try_sizes(right - SIZES / 2);
	assert_int_equal(allocs, 1);
	requirement_figure("R2",
			   "%d pairs of sizes, up to 128 and up to 64 beside the right one: %zu "
			   "reached the driver",
			   2 * SIZES * SIZES, allocs);
}
