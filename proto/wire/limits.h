/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_PROTO_LIMITS_H
#define GPUCTR_PROTO_LIMITS_H

/* Every bound of the protocol in one place. A message beyond one of them is malformed. */

enum {
	PROTO_VERSION = 1,
	PROTO_FEATURE_CATALOGUE = 1
				  << 0, /* of Hello: for metrics and plans alone, see protocol.md */

	LIMIT_FRAME_BYTES = 1 << 20,	/* payload of one frame */
	LIMIT_UNPACKED_BYTES = 8 << 20, /* heap that one frame may become */

	LIMIT_NAME_BYTES = 256,		/* names: metric, chip, GPU, program, version */
	LIMIT_TEXT_BYTES = 4096,	/* sentences for people, regular expressions */
	LIMIT_STRING_BYTES = 16 * 1024, /* NVTX messages, kernel names */
	LIMIT_TOKEN_BYTES = 64,
	LIMIT_JOB_BYTES = 63, /* a scheduler's name for a job */

	LIMIT_METRICS = 128, /* asked for, in one capture or plan; and columns of it */
	LIMIT_PLAN_METRICS = 512,
	LIMIT_TERMS = 32, /* of one column */
	LIMIT_GPUS = 64,
	LIMIT_TENANTS = 4096, /* processes on all GPUs */
	LIMIT_CAPTURES = 256, /* in one status reply */
	LIMIT_METRICS_PER_FRAME = 512,
	LIMIT_SUBMETRICS = 256,

	LIMIT_RECORDS_PER_FRAME = 4096,
	LIMIT_DEFINITIONS_PER_FRAME = 65536,
	LIMIT_IMAGE_PIECE_BYTES = 512 * 1024,
	LIMIT_IMAGE_BYTES = 1 << 30,
};

#endif
