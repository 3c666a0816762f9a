/* SPDX-License-Identifier: Apache-2.0 */

/* R26: the front has been taken over, and says to the granter whatever it likes, with any file, at
 * any time, and stops to read. What must hold is checked by the box. */

#include "proto/nvidia/rm.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/granter_box.h"

/* A step is a byte of kind and flags, and then what they call for. */
enum {
	KIND = 0x07,
	WITH_TIME = 0x08,
	WITH_DRIVER = 0x10, /* and the file in the other three bits */
};

static const uint32_t statuses[] = { RM_STATUS_OK, RM_STATUS_INSUFFICIENT_PERMISSIONS,
				     RM_STATUS_OBJECT_NOT_FOUND, 0xffffffff };
static const int errors[] = { 0, 5 /* EIO */, 22 /* EINVAL */, 25 /* ENOTTY */ };

static struct granter_request take_request(struct fuzz_input *in)
{
	struct granter_request q = { .size = sizeof(q) };
	uint8_t class;

	q.op = fuzz_take_u8(in);
	q.lease = fuzz_take_number(in);
	q.uid = (uint32_t)fuzz_take_number(in);
	if (q.op == GRANTER_ALLOC) {
		q.pid = (uint32_t)fuzz_take_number(in);
		class = fuzz_take_u8(in);
		q.object_class =
			class < 0xc0 ? RM_CLASS_PROFILER_DEVICE : (uint32_t)fuzz_take_uint(in, 4);
		q.client_target = (uint32_t)fuzz_take_number(in);
		q.context_target = q.root = q.parent = q.object = q.client_target + q.pid;
	} else {
		q.gpus = fuzz_take_number(in);
		q.device = fuzz_take_u8(in) >> 7;
	}
	return q;
}

static void take_raw(struct fuzz_input *in, struct box_step *step)
{
	step->kind = BOX_PACKET;
	step->n_bytes = fuzz_take_u8(in) * (sizeof(struct granter_request) / 128);
	step->n_files = step->file == BOX_NO_FILE ? 0 : fuzz_take_u8(in) & 15;
	for (size_t i = 0; i < step->n_bytes; i++) {
		step->bytes[i] = fuzz_take_u8(in);
	}
}

static void take_step(struct box_step *step, void *userdata)
{
	struct fuzz_input *in = userdata;
	struct granter_request q;
	uint8_t head = fuzz_take_u8(in);

	if (in->size == 0) {
		step->kind = BOX_END;
		return;
	}
	step->file = (enum box_file)((head >> 5) % BOX_FILES);
	if ((head & WITH_TIME) != 0) {
		step->after_ns = UINT64_C(1) << fuzz_take_u8(in) % 36; /* up to 34 s */
	}
	if ((head & WITH_DRIVER) != 0) {
		uint8_t answer = fuzz_take_u8(in);

		step->driver_status = statuses[answer & 3];
		step->driver_errno = errors[answer >> 2 & 3];
	}
	switch (head & KIND) {
	case 4:
		step->pid = fuzz_take_u8(in);
		step->kind = step->pid < 128 ? BOX_EXIT : step->pid < 192 ? BOX_HANG : BOX_ANSWER;
		break;
	case 5:
		step->kind = BOX_STOP_READING;
		break;
	case 6:
		step->kind = BOX_READ;
		break;
	case 7:
		take_raw(in, step);
		break;
	default:
		q = take_request(in);
		box_packet(step, &q, step->file);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	box_run(take_step, &in);
	return 0;
}
