/* SPDX-License-Identifier: Apache-2.0 */

/* R26: a front that was taken over speaks the internal protocol. Whatever it says, in whatever
 * order, and whatever hangs meanwhile, the granter grants only what its own checks allow: to a uid
 * with a live lease, on the control device, one class, one context. tests/fuzz/granter_box.c holds
 * the model that checks it.
 */

#include <errno.h>

#include "proto/base/clock.h"
#include "proto/nvidia/rm.h"
#include "tests/fuzz/granter_box.h"
#include "tests/requirements/requirement.h"
#include "tests/unit/unit.h"

enum { RUN = 20000 }; /* packets until a granter's life is over */

struct attacker {
	uint64_t random;
	size_t left;
	bool patient; /* few leases, which are kept until they hold as many objects as they may */
};

static uint64_t roll(struct attacker *a, uint64_t n)
{
	return unit_random(&a->random) % n;
}

/* Mostly near what would work, for what is nowhere near is refused by the first check. */
static uint32_t spoil(struct attacker *a, uint32_t good, unsigned one_in)
{
	if (roll(a, one_in) != 0) {
		return good;
	}
	return roll(a, 2) ? good ^ UINT32_C(1) << roll(a, 32) : (uint32_t)unit_random(&a->random);
}

static uint64_t some_gpus(struct attacker *a)
{
	switch (roll(a, 4)) {
	case 0:
		return unit_random(&a->random);
	case 1:
		return 0;
	default:
		return UINT64_C(1) << roll(a, 64);
	}
}

static struct granter_request some_request(struct attacker *a)
{
	uint32_t lease = (uint32_t)roll(a, a->patient ? 5 : 80);
	uint32_t client = (uint32_t)roll(a, 20);
	bool is_device = client == 0 && roll(a, 4) != 0;

	return (struct granter_request){
		.size = spoil(a, sizeof(struct granter_request), 100000),
		.op = roll(a, a->patient ? 1000 : 3) ? GRANTER_ALLOC : (uint32_t)roll(a, 8),
		.id = unit_random(&a->random),
		.lease = roll(a, 50) ? lease : unit_random(&a->random),
		.gpus = some_gpus(a),
		.uid = spoil(a, 1000 + lease % 4, 10),
		.pid = spoil(a, (uint32_t)roll(a, 64), 20),
		.root = (uint32_t)roll(a, 100),
		.parent = (uint32_t)roll(a, 100),
		.object = (uint32_t)roll(a, 100),
		.object_class = spoil(a, RM_CLASS_PROFILER_DEVICE, 8),
		.client_target = client,
		.context_target = is_device ? 0 : (uint32_t)unit_random(&a->random),
		.device = roll(a, 4) ? 0 : (uint32_t)roll(a, 3),
	};
}

static void next_step(struct box_step *step, void *userdata)
{
	static const uint32_t statuses[] = { RM_STATUS_OK, RM_STATUS_OK, RM_STATUS_OK,
					     0x1b,	   0x57,	 0x19 };
	struct attacker *a = userdata;
	struct granter_request q;

	if (a->left == 0) {
		step->kind = BOX_END;
		return;
	}
	step->after_ns = roll(a, 4) ? 0 : roll(a, 5) * CLOCK_NS_PER_MS;
	step->tick_ns = roll(a, 4) ? 0 : (uint32_t)roll(a, 100000);
	step->driver_status = statuses[roll(a, ARRAY_SIZE(statuses))];
	step->driver_errno = roll(a, 50) ? 0 : EIO;
	if (roll(a, RUN) == 0) {
		step->kind = roll(a, 2) ? BOX_WAIT : BOX_PAUSE;
		step->after_ns = roll(a, 30) * CLOCK_NS_PER_S;
		return;
	}
	if (roll(a, 200) == 0) {
		step->kind = roll(a, 4) ? BOX_EXIT : roll(a, 2) ? BOX_STOP_READING : BOX_READ;
		step->pid = (uint32_t)roll(a, 64);
		return;
	}
	if (roll(a, 500) == 0) {
		step->kind = roll(a, 4) ? BOX_ANSWER : BOX_HANG;
		step->pid = (uint32_t)roll(a, a->patient ? 5 : 10);
		step->after_ns = roll(a, 8) ? 0 : 6 * CLOCK_NS_PER_S;
		return;
	}
	q = some_request(a);
	step->starves = roll(a, RUN) == 0;
	box_packet(step, &q,
		   q.op == GRANTER_ALLOC && roll(a, 10) ? BOX_CONTROL_DEVICE
		   : roll(a, 10)			? BOX_NO_FILE
							: (enum box_file)roll(a, BOX_FILES));
	a->left--;
}

int main(void)
{
	struct attacker a = { .random = 26 };
	size_t wanted = requirement_amount(10000000, 1000000000);
	struct box_figures sum = { 0 };
	unsigned lives = 0, silent = 0;

	while (sum.packets < wanted) {
		struct box_figures f;

		a.left = RUN;
		a.patient = lives % 8 == 7;
		f = box_run(next_step, &a);
		sum.packets += f.packets;
		sum.opened += f.opened;
		silent += f.silent;
		sum.allocs += f.allocs;
		sum.grants += f.grants;
		sum.frees += f.frees;
		sum.hung += f.hung;
		lives++;
	}
	requirement_figure("R26",
			   "%zu internal messages of a hostile front in %u lives of a granter (%u "
			   "ended for its "
			   "silence): %zu leases (%zu of a driver that hung), %zu requests reached "
			   "the driver, %zu "
			   "granted, %zu freed, all as "
			   "the model foresaw",
			   (size_t)sum.packets, lives, silent, (size_t)sum.opened, (size_t)sum.hung,
			   (size_t)sum.allocs, (size_t)sum.grants, (size_t)sum.frees);
	return sum.grants > 1000 && silent * 20 > lives && sum.hung > 100 ? 0 : 1;
}
